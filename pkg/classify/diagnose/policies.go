package diagnose

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// failingExpression is what may follow the name of a policy. It belongs to the policy's
// error, and is none of a webhook's.
const failingExpression = `(?: expression '(.+?)' resulted in error:)?`

// failingExpressions is what the message of a validation says whose expression failed.
var failingExpressions = regexp.MustCompile(`^expression '(.+?)' resulted in error:`)

// failureAnnotation is what the annotation validation_failure of an audit event holds, in
// JSON or as a tool prints it. Source: ValidationFailureValue in k8s.io/apiserver
// pkg/admission/plugin/policy/validating.
var failureAnnotation = regexp.MustCompile(`\{"?message"?: ?"?(.*?)"?, ?"?policy"?: ?"?([^",}]+)"?(?:, ?"?binding"?: ?"?([^",}]+)"?)?(?:, ?"?expressionIndex"?: ?\d+)?, ?"?validationActions"?: ?\[([^\]]*)\]\}?`)

// misconfigured begins what is no verdict on an object.
const misconfigured = `^failed to configure (?:policy|binding): `

// policyCauses are the causes of a policy's error beside its own verdict. Source:
// k8s.io/apiserver pkg/admission/plugin/policy/generic/policy_dispatcher.go.
var policyCauses = []cause{
	{regexp.MustCompile(`no params found for policy binding`), "params-missing"},
	{regexp.MustCompile(`failed to find resource referenced by paramKind|` + misconfigured + `(?:paramKind kind .* not known|failed to find REST mapping)`), "param-kind"},
	{regexp.MustCompile(`not yet synced to use for admission`), "params-unsynced"},
	{regexp.MustCompile(`paramRef\.namespace must not be provided`), "param-scope"},
	{regexp.MustCompile(`cannot use namespaced paramRef in policy binding`), "param-namespace"},
	{regexp.MustCompile(`no corresponding type for`), "apply-without-type"},
	{regexp.MustCompile(misconfigured), "policy-configuration"},
	{regexp.MustCompile(`actual cost limit exceeded|out of cost budget|compilation error`), causePolicyExpression},
}

// setPolicy fills in what the error says of a policy of the type.
func (c *APIServerError) setPolicy(t inventory.Type, groups []string) {
	c.Policy = inventory.Ref{Type: t, Configuration: groups[1], Name: groups[1]}
	c.Binding, c.Expression = groups[2], groups[3]
	switch {
	case c.Expression == "":
	case c.Cause == causePolicyWarned:
		c.Cause = causePolicyExpressionWarned
	default:
		c.Cause = causePolicyExpression
	}
}

// withoutBinding is what lets requests through: without the binding that the error names, or without any
// where the policy is wrong.
func withoutBinding(p *inventory.AdmissionPolicy, binding string) string {
	const words = "; to let requests through meanwhile: "
	fitting := lists.Filter(p.Bindings, func(b *inventory.PolicyBinding) bool { return shows(binding, b.Object.Name) })
	switch {
	case binding == "" && len(p.Bindings) > 0:
		return words + classify.PolicyCommands(p).Disable
	case len(fitting) == 1:
		return words + classify.DeleteBinding(fitting[0])
	}
	return ""
}

// addPolicy looks the policy of the error up. A name that was cut may be that of several, of which
// none is advised on.
func (a *Answer) addPolicy(r *classify.Report) {
	fitting := lists.Filter(r.Snapshot.Policies, func(p *inventory.AdmissionPolicy) bool {
		return p.Type == a.Policy.Type && shows(a.Policy.Name, p.Name)
	})
	if len(fitting) == 1 {
		a.AdmissionPolicy, a.Policy = fitting[0], fitting[0].Ref
	}
	a.find(r, func(f *classify.Finding) bool { return f.Webhook == a.Policy })
	p := a.AdmissionPolicy
	switch {
	case p == nil && a.Policy.Static():
		a.Notes = append(a.Notes, "Policy "+a.Policy.Name+onDisk)
	case p == nil && !hasInput(r):
	case len(fitting) > 1:
		names := lists.Map(fitting, func(p *inventory.AdmissionPolicy) string { return p.Name })
		a.Notes = append(a.Notes, fmt.Sprintf("%d policies are registered that it may be about: %s.", len(fitting), classify.JoinBounded(names)))
	case p == nil:
		a.Notes = append(a.Notes, fmt.Sprintf("The input has no policy %s.", a.Policy.Name))
	case a.Explaining == 0 && a.Cause != causePolicyWarned && a.Cause != causePolicyExpressionWarned:
		a.Fix += withoutBinding(p, a.Binding)
	}
	if p != nil && !p.FailsClosed() &&
		!slices.Contains([]Cause{causePolicyDenied, causePolicyWarned, causePolicyExpressionWarned}, a.Cause) {
		a.Notes = append(a.Notes, "Its failurePolicy is Ignore: the policy was Fail at the time.")
	}
}
