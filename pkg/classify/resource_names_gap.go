package classify

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var resourceNamesGap = &Check{
	Name:     "resource-names-gap",
	Summary:  "An admission policy guards objects by resourceNames against deletion: deleting the whole collection passes it by.",
	Severity: Info,
	FindPolicy: func(p *PolicyProfile) []Problem {
		if !p.Denies() {
			return nil
		}
		for i := range p.ResourceNames {
			rule := &p.Rules[i]
			if len(p.ResourceNames[i]) > 0 && admission.RuleOperations(rule).Has(admission.Delete) {
				return []Problem{deletedAsCollection(p, i, rule)}
			}
		}
		return nil
	},
}

func deletedAsCollection(p *PolicyProfile, i int, rule *admissionv1.RuleWithOperations) Problem {
	return Problem{
		Message: fmt.Sprintf("is not evaluated for %s of %s where the whole collection is deleted: the requests then carry no name, which the resourceNames of resourceRules[%d] never match",
			inventory.Counted(len(p.ResourceNames[i]), "name"), named(rule), i),
		Fix: fmt.Sprintf("remove resourceNames from resourceRules[%d] of %s, and compare oldObject.metadata.name in a matchCondition%s", i, objectName(&p.Registration), changedBy(p.Object.Owner)),
	}
}
