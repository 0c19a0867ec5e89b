package classify

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var failingMatchCondition = &Check{
	Name:     "failing-match-condition",
	Summary:  "A matchCondition always fails: requests are refused, or the webhook is skipped.",
	Severity: Critical,
	Alerts: map[Severity]string{
		Critical: "WebhookFailingMatchCondition",
		Warning:  "WebhookFailingMatchConditionWarning",
	},
	For:   5 * time.Minute,
	Cause: "A matchCondition always fails",
	Find:  findFailingMatchCondition,
}

func findFailingMatchCondition(p *Profile) []Problem {
	failing := p.Matcher.FailingConditions(p.Webhook)
	if len(failing) == 0 {
		return nil
	}
	first := failing[0]
	condition := p.MatchConditions[first.Index].Name
	problem := Problem{
		Severity: Warning,
		Message: fmt.Sprintf("is never called for %s: matchCondition %q always fails there (%s), which skips the webhook (failurePolicy Ignore)",
			failedRequests(failing), condition, first.Reason),
		Fix: fmt.Sprintf("correct matchCondition %q of %s: ask first whether what it reads is there, as in has(request.subResource) && request.subResource == \"status\" or object != null && object.spec.paused%s",
			condition, ObjectName(p), byOwner(p)),
	}
	if p.FailsClosed() {
		problem.Severity = Critical
		problem.Message = fmt.Sprintf("refuses every %s%s without being called, however healthy its backend is: matchCondition %q always fails there (%s)%s",
			failedRequests(failing), ifSelected(p), condition, first.Reason, unlessSkipped(failing))
	}
	return []Problem{problem}
}

// failedRequests names what a matchCondition fails for: "CREATE of nodes and DELETE of
// pods".
func failedRequests(failing []admission.FailingCondition) string {
	return JoinBounded(lists.Map(failing, func(f admission.FailingCondition) string {
		return fmt.Sprintf("%s of %s", operations(f.Operations), f.Resource)
	}))
}

// ifSelected says that selectors leave some of the requests out.
func ifSelected(p *Profile) string {
	if p.NamespaceSelector.Empty() && p.ObjectSelector.Empty() {
		return ""
	}
	return " that its selectors select"
}

// unlessSkipped: a matchCondition that is false beside the one that fails skips
// the webhook, and the request passes.
func unlessSkipped(failing []admission.FailingCondition) string {
	if slices.ContainsFunc(failing, func(f admission.FailingCondition) bool { return !f.Alone }) {
		return ", unless another matchCondition is false"
	}
	return ""
}

var policyExpression = &Check{
	Name:     "policy-expression",
	Summary:  "An expression of an admission policy fails for a kind that the policy matches.",
	Severity: Warning,
	FindPolicy: func(p *PolicyProfile) []Problem {
		return slices.Concat(failingConditions(p), badlyTyped(p), panicking(p), atomic(p))
	},
}

// failingConditions is what an expression does that fails whatever the request holds: the
// API server's type checking knows it not, as the name of a field alone is right.
func failingConditions(p *PolicyProfile) []Problem {
	failing := p.Matcher.FailingPolicyConditions(p.AdmissionPolicy)
	if len(failing) == 0 {
		return nil
	}
	what := failing[0].Field
	if what == "" {
		what = fmt.Sprintf("matchCondition %q", p.MatchConditions[failing[0].Index].Name)
	}
	return []Problem{{
		Severity: warningIf(refuses(p, what) && failing[0].Alone),
		Message: fmt.Sprintf("fails for every %s that it is evaluated for: %s does (%s), which %s%s",
			failedRequests(failing), what, failing[0].Reason, whatFailureDoes(p, what), unlessSkipped(failing)),
		Fix: fmt.Sprintf("correct %s of %s: ask first whether what it reads is there, as in has(request.subResource) && request.subResource == \"status\"%s",
			what, objectName(&p.Registration), changedBy(p.Object.Owner)),
	}}
}

// badlyTyped is what the type checking of kube-controller-manager warns of.
func badlyTyped(p *PolicyProfile) []Problem {
	if len(p.TypeWarnings) == 0 {
		return nil
	}
	var out []string
	for _, w := range p.TypeWarnings {
		text, _, _ := strings.Cut(strings.TrimSpace(w.Warning), "\n")
		out = append(out, w.FieldRef+" ("+text+")")
	}
	return []Problem{{
		Severity: warningIf(refuses(p, out[0])),
		Message:  fmt.Sprintf("fails through %s, which %s", JoinBounded(out), whatFailureDoes(p, out[0])),
		Fix:      fmt.Sprintf("correct the expressions, or narrow the rules of %s to the kinds that they are for%s", objectName(&p.Registration), changedBy(p.Object.Owner)),
	}}
}

// panicking is what an API server of an older release does not survive the request by.
func panicking(p *PolicyProfile) []Problem {
	indexes := admission.ObjectsInLists(p.AdmissionPolicy)
	server := p.Snapshot.Server
	if len(indexes) == 0 || server.AtLeast(1, admission.PanicsBefore) {
		return nil
	}
	return []Problem{{
		Severity: warningIf(server.Known()),
		Message:  fmt.Sprintf("sets a list or map with an Object in it by mutations[%d]: API servers before v1.%d panic at that, so that each request it matches fails, whatever the failurePolicy (v1.35 and v1.36: before the fixes of August 2026)", indexes[0], admission.PanicsBefore),
		Brief:    fmt.Sprintf("API servers before v1.%d panic at the Object in a list or map that mutations[%d] sets", admission.PanicsBefore, indexes[0]),
		Fix:      fmt.Sprintf("write maps in place of Objects in the value of the JSONPatch, as in value: [{\"key\": \"spot\"}], or use an applyConfiguration%s", changedBy(p.Object.Owner)),
	}}
}

// atomic is what an applyConfiguration may not set: an API server refuses it at each evaluation.
func atomic(p *PolicyProfile) []Problem {
	fields := admission.AtomicFields(p.AdmissionPolicy)
	if len(fields) == 0 {
		return nil
	}
	unless := ""
	if len(p.MatchConditions) > 0 {
		unless = ", unless a matchCondition is false"
	}
	return []Problem{{
		Severity: warningIf(refuses(p, "") && unless == ""),
		Message:  fmt.Sprintf("sets %s, which a server-side apply takes as one value: an applyConfiguration may not mutate atomic lists, maps and structs, and that %s%s", JoinBounded(fields), whatFailureDoes(p, ""), unless),
		Fix:      fmt.Sprintf("write these fields by a JSONPatch in %s%s", objectName(&p.Registration), changedBy(p.Object.Owner)),
	}}
}

// whatFailureDoes is what follows where the expression of the policy fails.
func whatFailureDoes(p *PolicyProfile, field string) string {
	switch {
	case !p.FailsClosed():
		return "lets the request pass (failurePolicy Ignore)"
	case !refuses(p, field):
		return "is reported alone (validationActions without Deny)"
	}
	return "refuses the request (failurePolicy Fail)"
}

// refuses reports whether a failure of the expression refuses requests: of auditAnnotations it
// does whatever the validationActions are. Source: k8s.io/apiserver
// pkg/admission/plugin/policy/validating/dispatcher.go.
func refuses(p *PolicyProfile, field string) bool {
	return p.FailsClosed() && (p.Denies() || strings.Contains(field, "auditAnnotations"))
}

var applyWithoutType = &Check{
	Name:     "apply-without-type",
	Summary:  "An admission policy refuses scaling, evictions, tokens or exec: its applyConfiguration has no type to apply to.",
	Severity: Critical,
	Alerts:   map[Severity]string{Critical: "WebhookPolicyApplyWithoutType"},
	For:      5 * time.Minute,
	FindPolicy: func(p *PolicyProfile) []Problem {
		unapplied := p.Matcher.UnappliedResources(p.AdmissionPolicy)
		if len(unapplied) == 0 {
			return nil
		}
		resources := lists.Map(unapplied, func(u admission.Unapplied) inventory.Resource { return u.Resource })
		problem := Problem{
			Severity: Info,
			Message:  fmt.Sprintf("does nothing for %s: the API server has no type of what they carry to apply its configuration to (failurePolicy Ignore)", listed(resources)),
			Fix:      leaveSubresourcesOut(p, resources),
		}
		if p.FailsClosed() {
			refused, stops := unappliedRequests(unapplied), whatStops(p, unapplied)
			// What an objectSelector or names let through is little: most subresources carry no labels.
			problem.Severity = warningIf(slices.ContainsFunc(unapplied, admission.Unapplied.Certain) ||
				len(p.MatchConditions) > 0)
			problem.Brief = "it refuses requests to " + listed(resources[:min(len(resources), 3)])
			if stops != "" {
				problem.Severity = Critical
				problem.Brief = strings.TrimPrefix(stops, ", so that ") + ": " + problem.Brief
			}
			problem.Message = fmt.Sprintf("refuses %s%s: the API server has no type of what they carry to apply its configuration to (no corresponding type; failurePolicy Fail)", refused, stops)
		}
		return []Problem{problem}
	},
}

// unappliedRequests says which requests are refused: all of them, those in some namespaces,
// or those that something lets through.
func unappliedRequests(unapplied []admission.Unapplied) string {
	resources := map[string][]inventory.Resource{}
	for _, u := range unapplied {
		scope := "those requests to %s that its " + strings.TrimSuffix(string(u.Filter), "s") + "s let through"
		switch {
		case u.All:
			scope = "all requests to %s"
		case len(u.Namespaces) > 0:
			scope = "in " + theNamespaces(u.Namespaces) + " those to %s"
		}
		resources[scope] = append(resources[scope], u.Resource)
	}
	scopes := slices.Sorted(maps.Keys(resources)) // all, in namespaces, those
	out := lists.Map(scopes, func(scope string) string {
		return strings.Replace(scope, "%s", listed(resources[scope]), 1)
	})
	return strings.Join(out, ", and ")
}

func theNamespaces(names []string) string {
	if len(names) == 1 {
		return "namespace " + names[0]
	}
	return "namespaces " + JoinBounded(names)
}

// vital are the subresources whose requests the cluster itself depends on, who makes them,
// where that is known, and what stops without them.
var vital = map[inventory.Resource]struct {
	user  *admission.User
	stops string
}{
	{Name: "pods", Subresource: "eviction"}:         {nil, "node drains stop"},
	{Name: "serviceaccounts", Subresource: "token"}: {kubelet, "Pods get no tokens and do not start"},
}

// whatStops says it in words that follow the resources: of requests that are certainly
// refused, and carry no labels.
func whatStops(p *PolicyProfile, unapplied []admission.Unapplied) string {
	var out []string
	for _, u := range unapplied {
		v, ok := vital[u.Resource]
		if !ok {
			continue
		}
		refused := p.Matcher.UnappliedRequests(p.AdmissionPolicy, u.MatchedResource,
			admission.Subject{User: v.user, Labels: admission.Unlabeled})
		switch {
		case refused.All || refused.Presumed:
			out = append(out, v.stops)
		case len(refused.Namespaces) > 0:
			out = append(out, v.stops+" in "+theNamespaces(refused.Namespaces))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return ", so that " + sentence(out, 0)
}

// leaveSubresourcesOut is the command that keeps the policy off the subresources.
func leaveSubresourcesOut(p *PolicyProfile, resources []inventory.Resource) string {
	subresources := lists.Map(resources, func(r inventory.Resource) string { return "*/" + r.Subresource })
	rule := admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.OperationAll},
		Rule: admissionv1.Rule{
			APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: lists.Distinct(subresources),
		},
	}
	const field = "/spec/matchConstraints/excludeResourceRules"
	if len(p.Excluded.Rules) > 0 {
		return edited(&p.Registration, edit{"add", field + "/-", rule})
	}
	return edited(&p.Registration, edit{"test", field, nil}, edit{"add", field, []admissionv1.RuleWithOperations{rule}})
}
