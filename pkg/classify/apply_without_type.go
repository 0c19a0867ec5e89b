package classify

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var applyWithoutType = &Check{
	Name:     "apply-without-type",
	Summary:  "A mutating admission policy refuses scaling, evictions, tokens or kubectl exec: its applyConfiguration has no type of them to apply to.",
	Severity: Critical,
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
	add := edit{"add", "/spec/matchConstraints/excludeResourceRules", []admissionv1.RuleWithOperations{rule}}
	if len(p.Excluded.Rules) > 0 {
		add = edit{"add", add.Path + "/-", rule}
	}
	return edited(&p.Registration, "--type=json -p "+quoted(document([]edit{add})))
}
