package classify

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
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
		resources := resourceNames(unapplied)
		problem := Problem{
			Severity: Info,
			Message:  fmt.Sprintf("does nothing for %s: the API server has no type of what they carry to apply its configuration to (failurePolicy Ignore)", listed(resources)),
			Fix:      leaveSubresourcesOut(p, resources),
		}
		if p.FailsClosed() {
			stops := whatStops(resources)
			if problem.Severity = Warning; stops != "" {
				problem.Severity = Critical
			}
			problem.Brief = "it refuses all requests to " + listed(resources)
			if stops != "" {
				problem.Brief = strings.TrimPrefix(stops, ", so that ") + ": " + problem.Brief
			}
			problem.Message = fmt.Sprintf("refuses all requests to %s%s: the API server has no type of what they carry to apply its configuration to (no corresponding type; failurePolicy Fail)", listed(resources), stops)
		}
		return []Problem{problem}
	},
}

// vital are the subresources whose requests the cluster itself depends on, and what
// stops without them.
var vital = map[inventory.Resource]string{
	{Name: "pods", Subresource: "eviction"}:         "node drains stop",
	{Name: "serviceaccounts", Subresource: "token"}: "Pods get no tokens and do not start",
}

// whatStops says it in words that follow the resources.
func whatStops(resources []inventory.Resource) string {
	var out []string
	for _, r := range resources {
		if stops, ok := vital[r]; ok {
			out = append(out, stops)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return ", so that " + sentence(out, 0)
}

// leaveSubresourcesOut is the command that keeps the policy off the subresources.
func leaveSubresourcesOut(p *PolicyProfile, resources []inventory.Resource) string {
	var subresources []string
	for _, r := range resources {
		subresources = append(subresources, "*/"+r.Subresource)
	}
	rule := admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.OperationAll},
		Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: text.Distinct(subresources)},
	}
	add := edit{"add", "/spec/matchConstraints/excludeResourceRules", []admissionv1.RuleWithOperations{rule}}
	if len(p.Excluded.Rules) > 0 {
		add = edit{"add", add.Path + "/-", rule}
	}
	return edited(&p.Registration, "patch", "--type=json -p "+quoted(document([]edit{add})))
}
