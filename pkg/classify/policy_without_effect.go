package classify

import (
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
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
			if likely := likelyPolicy(p); likely != "" {
				absence = fmt.Sprintf("is not in the input (did you mean %s?); if nothing else installs it,", likely)
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

// likelyPolicy is the policy that the bindings of an absent one mean: one of almost the name, or
// of the name and the other type; "" where none is like it.
func likelyPolicy(p *PolicyProfile) string {
	var names []string
	for _, o := range p.Snapshot.Policies {
		switch {
		case o.Type == p.Type:
			names = append(names, o.Name)
		case o.Name == p.Name:
			return o.Object.Kind + " " + o.Name
		}
	}
	return inventory.LikelyName(p.Name, names)
}
