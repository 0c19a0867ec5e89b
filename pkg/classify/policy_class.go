package classify

import (
	"fmt"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// policiesOn finds the admission policies that are evaluated for resources of the class,
// where the Policy asks for them: no third party answers in their place.
func policiesOn(class Class, check string) func(*PolicyProfile) []Problem {
	return func(p *PolicyProfile) []Problem {
		approved := approvalURL.MatchString(p.Object.Annotations[ApprovalAnnotation])
		if !p.Policy.ClassifyPolicies || p.Platform || p.Absent || approved || len(p.Bindings) == 0 {
			return nil
		}
		var in []string
		for _, m := range p.Matcher.PolicyResources(p.AdmissionPolicy) {
			if p.Policy.isOf(class, m.Resource, p.Snapshot) {
				in = append(in, m.Resource.String())
			}
		}
		if len(in) == 0 {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("is evaluated for the %s resources %s and is not approved", class, JoinBounded(in)),
			Fix:     approveObject(objectName(&p.Registration), check),
		}}
	}
}

// isOf reports whether the resource is of the class.
func (p *Policy) isOf(class Class, r inventory.Resource, s *inventory.Snapshot) bool {
	if class != ClassCore {
		return slices.Contains(p.Classes[class], r)
	}
	return slices.Contains(p.CoreGroups, r.Group) || isApprovedAPI(s, r)
}
