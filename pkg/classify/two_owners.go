package classify

import (
	"fmt"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var twoOwners = &Check{
	Name:     "two-owners",
	Summary:  "Two owners have one configuration: each replaces what the other registers.",
	Severity: Warning,
	Find: func(p *Profile) []Problem {
		if p.Index > 0 { // one of the configuration is enough
			return nil
		}
		return sharedName(&p.Registration)
	},
	FindPolicy: func(p *PolicyProfile) []Problem { return sharedName(&p.Registration) },
}

// scaffoldNames are those that kubebuilder gives to configurations, for a kustomization to
// prefix. Source: kubebuilder's scaffold config/webhook, and controller-gen.
var scaffoldNames = []string{"validating-webhook-configuration", "mutating-webhook-configuration"}

func sharedName(r *inventory.Registration) []Problem {
	o := &r.Object
	rename := fmt.Sprintf("give %s a name that begins with that of its software: namePrefix of a kustomization, fullnameOverride of most charts", objectName(r))
	switch {
	case o.Rival != nil:
		other := o.Rival.Source.String()
		if o.Rival.Owner.Tool != "" {
			other += fmt.Sprintf(" (%s)", o.Rival.Owner)
		}
		return []Problem{{
			Message: fmt.Sprintf("is in a %s whose name another owner has in %s: Helm refuses the second, kubectl apply replaces the first", o.Kind, other),
			Brief:   fmt.Sprintf("another owner has %s too, in %s: Helm refuses the second, kubectl apply replaces the first", objectName(r), other),
			Fix:     rename,
		}}
	case len(o.Owners) > 1:
		names := make([]string, len(o.Owners))
		for i, owner := range o.Owners {
			names[i] = owner.String()
		}
		return []Problem{{
			Severity: Info,
			Message:  fmt.Sprintf("is in a %s that is marked as that of %s: where both write it, each reverts the other", o.Kind, JoinBounded(names)),
			Fix:      "leave the object in one of them, and take the mark of the other one off",
		}}
	case r.Type != inventory.Conversion && slices.Contains(scaffoldNames, r.Configuration) && (o.Applied == nil || o.Owner.Tool != ""):
		return []Problem{{
			Severity: Info,
			Message:  fmt.Sprintf("is in a %s with the name that kubebuilder gives to all: other software with it replaces this one, and Helm refuses the second", o.Kind),
			Fix:      rename + changedBy(o.Owner),
		}}
	}
	return nil
}
