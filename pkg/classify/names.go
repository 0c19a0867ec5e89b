package classify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var duplicateName = &Check{
	Name:     "duplicate-name",
	Summary:  "Webhooks of one type share a name, so that the API server's metrics merge them.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if len(p.SameName) == 0 {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("has a name that several webhooks have, in %s: the API server's metrics and errors do not distinguish them", JoinBounded(p.SameName)),
			Fix:     fmt.Sprintf("give it a name of its own in %s, one that ends in a domain of its owner%s", ObjectName(p), byOwner(p)),
		}}
	},
}

// findSameNames finds the webhooks that share a name: the API server's own series
// do not distinguish them. It costs a step for each webhook, and sorting.
func findSameNames(w *work, r *Report) {
	registered := map[inventory.Series][]string{}
	for _, p := range r.Profiles {
		registered[p.Series()] = append(registered[p.Series()], p.Configuration)
	}
	for key, all := range registered {
		if len(all) == 1 {
			delete(registered, key)
		} else {
			registered[key] = lists.Distinct(all)
		}
	}
	for _, p := range r.Profiles {
		if !w.step() {
			return
		}
		p.SameName = registered[p.Series()]
	}
}

var twoOwners = &Check{
	Name:     "two-owners",
	Summary:  "Two owners have one configuration: each replaces what the other registers.",
	Severity: Warning,
	Find: func(p *Profile) []Problem {
		if p.Index > 0 { // one of the configuration is enough
			return nil
		}
		var own []Problem
		if isInstalledTwice(p) {
			own = sharedName(&p.Object, objectName(&p.Registration))
		}
		return slices.Concat(own, genericName(p))
	},
	FindPolicy: func(p *PolicyProfile) []Problem {
		out := sharedName(&p.Object, objectName(&p.Registration))
		for _, b := range p.Bindings {
			out = append(out, sharedName(&b.Object, bindingName(b))...)
		}
		return out
	},
}

// scaffoldNames are those that kubebuilder gives to configurations, for a kustomization to
// prefix. Source: kubebuilder's scaffold config/webhook, and controller-gen.
var scaffoldNames = []string{"validating-webhook-configuration", "mutating-webhook-configuration"}

// sharedName is what two owners make of an object.
func sharedName(o *inventory.Object, name string) []Problem {
	switch {
	case o.Rival != nil:
		other := o.Rival.Source.String()
		if owner := o.Rival.Owner; owner.Tool != "" {
			other += fmt.Sprintf(" (%s)", strings.TrimSuffix(fmt.Sprintf("%s in namespace %s", owner, owner.Namespace), " in namespace "))
		}
		return []Problem{{
			Message: fmt.Sprintf("belongs to a %s whose name another owner has in %s: Helm refuses the second, kubectl apply replaces the first", o.Kind, other),
			Brief:   fmt.Sprintf("another owner has %s too, in %s: Helm refuses the second, kubectl apply replaces the first", name, other),
			Fix:     nameOfItsOwn(name),
		}}
	case len(o.Owners) > 1:
		names := lists.Map(o.Owners, func(owner inventory.Owner) string { return owner.String() })
		return []Problem{{
			Severity: Info,
			Message:  fmt.Sprintf("belongs to a %s that is marked as that of %s: where both write it, each reverts the other", o.Kind, JoinBounded(names)),
			Fix:      "leave the object in one of them, and take the mark of the other one off",
		}}
	}
	return nil
}

// isInstalledTwice reports whether the other object of the name is none of the same installation.
func isInstalledTwice(p *Profile) bool {
	if p.Object.Rival == nil || p.Object.Rival.Service.Name == "" {
		return true
	}
	_, hasOther := p.Snapshot.Services[p.Object.Rival.Service]
	_, hasOwn := p.Snapshot.Services[p.Webhook.Backend.Service.Key]
	return hasOther && hasOwn
}

func nameOfItsOwn(name string) string {
	return fmt.Sprintf("give %s a name that begins with that of its software: namePrefix of a kustomization, fullnameOverride of most charts", name)
}

// genericName is what a name is that all software of a generator has. A file without an owner
// may be the scaffold that a kustomization prefixes; what a cluster is compared with is not.
func genericName(p *Profile) []Problem {
	o, isScaffold := &p.Object, p.Object.Applied != nil && p.Object.Owner.Tool == "" && !p.Snapshot.NamespacesKnown
	if o.Rival != nil || len(o.Owners) > 1 || p.Type == inventory.Conversion ||
		!slices.Contains(scaffoldNames, p.Configuration) || isScaffold {
		return nil
	}
	return []Problem{{
		Severity: Info,
		Message:  fmt.Sprintf("is in a %s with the name that kubebuilder gives to all: other software with it replaces this one, and Helm refuses the second", o.Kind),
		Fix:      nameOfItsOwn(objectName(&p.Registration)) + changedBy(o.Owner),
	}}
}
