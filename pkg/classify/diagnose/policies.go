package diagnose

import (
	"fmt"
	"regexp"
	"slices"

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

// addPolicy looks the policy of the error up.
func (a *Answer) addPolicy(r *classify.Report) {
	for _, p := range r.Snapshot.Policies {
		if p.Type == a.Policy.Type && shows(a.Policy.Name, p.Name) {
			a.AdmissionPolicy, a.Policy = p, p.Ref
		}
	}
	a.find(r, func(f *classify.Finding) bool { return f.Webhook == a.Policy })
	p := a.AdmissionPolicy
	switch {
	case p == nil && a.Policy.Static():
		a.Notes = append(a.Notes, "Policy "+a.Policy.Name+onDisk)
	case p == nil && !hasInput(r):
	case p == nil:
		a.Notes = append(a.Notes, fmt.Sprintf("The input has no policy %s.", a.Policy.Name))
	case a.Explaining == 0 && a.Cause != causePolicyWarned && a.Cause != causePolicyExpressionWarned:
		for _, b := range p.Bindings {
			if shows(a.Binding, b.Object.Name) || a.Binding == "" {
				a.Fix += "; to let requests through meanwhile: " + classify.DeleteBinding(b)
				break
			}
		}
	}
	if p != nil && !p.FailsClosed() &&
		!slices.Contains([]Cause{causePolicyDenied, causePolicyWarned, causePolicyExpressionWarned}, a.Cause) {
		a.Notes = append(a.Notes, "Its failurePolicy is Ignore: the policy was Fail at the time.")
	}
}
