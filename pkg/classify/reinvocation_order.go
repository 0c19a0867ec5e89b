package classify

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var reinvocationOrder = &Check{
	Name:     "reinvocation-order",
	Summary:  "A mutating webhook that is called again has side effects, which may happen twice.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if p.Type != inventory.Mutating || p.Reinvocation != admissionv1.IfNeededReinvocationPolicy || p.SideEffects == admissionv1.SideEffectClassNone {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("may be called twice for one request (reinvocationPolicy IfNeeded), and has side effects (sideEffects %s)", p.SideEffects),
			Fix:     patch(p, set(p, "reinvocationPolicy", string(admissionv1.NeverReinvocationPolicy))),
		}}
	},
}
