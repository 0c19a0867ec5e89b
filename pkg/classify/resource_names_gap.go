package classify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var resourceNamesGap = &Check{
	Name:     "resource-names-gap",
	Summary:  "An admission policy guards objects by resourceNames against deletion: deleting the whole collection passes it by.",
	Severity: Info,
	FindPolicy: func(p *PolicyProfile) []Problem {
		if !p.Denies() || !slices.ContainsFunc(p.Matcher.PolicyResources(p.AdmissionPolicy),
			func(r admission.MatchedResource) bool { return r.Operations.Has(admission.Delete) }) {
			return nil
		}
		if problem, found := namesGap(objectName(&p.Registration), &p.MatchResources); found {
			problem.Fix += changedBy(p.Object.Owner)
			return []Problem{problem}
		}
		if slices.ContainsFunc(p.Bindings, deniesAll) {
			return nil
		}
		for _, b := range p.Bindings {
			problem, found := namesGap(TypeAndName(strings.ToLower(b.Object.Kind), b.Object.Name), &b.MatchResources)
			if found && b.Denies() {
				problem.Fix += changedBy(b.Object.Owner)
				return []Problem{problem}
			}
		}
		return nil
	},
}

// deniesAll reports whether nothing that the policy matches passes by the binding.
func deniesAll(b *inventory.PolicyBinding) bool {
	return b.Denies() && len(b.Rules)+len(b.Excluded.Rules) == 0 && b.NamespaceSelector.Empty() &&
		b.ObjectSelector.Empty()
}

// namesGap is what the resourceNames of the object's rules miss, a policy or a binding.
func namesGap(object string, m *inventory.MatchResources) (Problem, bool) {
	for i, names := range m.ResourceNames {
		rule := &m.Rules[i]
		if len(names) == 0 || !admission.RuleOperations(rule).Has(admission.Delete) || deletesUnnamed(m, named(rule)) {
			continue
		}
		return Problem{
			Message: fmt.Sprintf("is not evaluated for %s of %s where the whole collection is deleted: the requests then carry no name, which the resourceNames of resourceRules[%d] of %s never match",
				inventory.Counted(len(names), "name"), named(rule), i, object),
			Fix: fmt.Sprintf("remove resourceNames from resourceRules[%d] of %s, and compare oldObject.metadata.name in a matchCondition of the policy", i, object),
		}, true
	}
	return Problem{}, false
}

// deletesUnnamed reports whether a rule has the deletion of the resources without names.
func deletesUnnamed(m *inventory.MatchResources, resources string) bool {
	for i, names := range m.ResourceNames {
		if rule := &m.Rules[i]; len(names) == 0 && admission.RuleOperations(rule).Has(admission.Delete) &&
			named(rule) == resources {
			return true
		}
	}
	return false
}
