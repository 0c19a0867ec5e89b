package classify

import (
	"fmt"
)

var policyWithoutEffect = &Check{
	Name:     "policy-without-effect",
	Summary:  "An admission policy has no binding, or a binding no policy: neither does anything.",
	Severity: Info,
	FindPolicy: func(p *PolicyProfile) []Problem {
		switch {
		case !p.Snapshot.PoliciesKnown: // files need not hold all of them
			return nil
		case p.Absent:
			binding := p.Bindings[0].Object
			return []Problem{{
				Message: fmt.Sprintf("does not exist, so that %s %s has no effect", binding.Kind, binding.Name),
				Fix:     "create the policy, or " + DeleteBinding(p.Bindings[0]) + changedBy(binding.Owner),
			}}
		case len(p.Bindings) == 0:
			return []Problem{{
				Message: "has no effect: no binding names it",
				Fix:     fmt.Sprintf("create a %sBinding with policyName %s, or kubectl delete %s%s", p.Object.Kind, quoted(p.Name), objectName(&p.Registration), changedBy(p.Object.Owner)),
			}}
		}
		return nil
	},
}
