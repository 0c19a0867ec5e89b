package classify

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var reinvocationOrder = &Check{
	Name:     "reinvocation-order",
	Summary:  "A webhook that is called again has side effects, or meets another one that is called again.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if !reinvocable(p.Webhook) {
			return nil
		}
		fix := patch(p, set(p, "reinvocationPolicy", string(admissionv1.NeverReinvocationPolicy)))
		switch {
		case p.SideEffects != admissionv1.SideEffectClassNone:
			return []Problem{{
				Message: fmt.Sprintf("may be called twice for one request (reinvocationPolicy IfNeeded), and has side effects (sideEffects %s)", p.SideEffects),
				Fix:     fix,
			}}
		case p.Reinvoked.Total > 0:
			return []Problem{{
				Message: fmt.Sprintf("is called again for the same resources as those of %s (reinvocationPolicy IfNeeded): there is no third round, so the last of them is not seen by the others", p.Reinvoked),
				Fix:     "if it does not depend on what the others change: " + fix,
			}}
		}
		return nil
	},
}

func reinvocable(w *inventory.Webhook) bool {
	return w.Type == inventory.Mutating && w.Reinvocation == admissionv1.IfNeededReinvocationPolicy
}
