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
		case p.Absent && p.Snapshot.Unread(p.Ref):
		case p.Absent:
			binding, absence := p.Bindings[0].Object, "does not exist, so that"
			if !p.Snapshot.PoliciesKnown {
				absence = "is not in the input; if nothing else installs it,"
			}
			return []Problem{{
				Message: fmt.Sprintf("%s %s %s has no effect", absence, binding.Kind, binding.Name),
				Fix:     "create the policy, or " + DeleteBinding(p.Bindings[0]) + changedBy(binding.Owner),
			}}
		case p.Snapshot.PoliciesKnown && len(p.Bindings) == 0: // files need not hold all of them
			remove := DeleteCommands(kindOf(&p.Registration), p.Name, p.Object.Owner)
			return []Problem{{
				Message: "has no effect: no binding names it",
				Fix:     fmt.Sprintf("create a %sBinding with policyName %s, or %s%s", p.Object.Kind, quoted(p.Name), remove.Disable, changedBy(p.Object.Owner)),
			}}
		}
		return nil
	},
}
