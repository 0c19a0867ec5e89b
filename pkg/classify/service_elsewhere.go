package classify

import (
	"fmt"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var serviceElsewhere = &Check{
	Name:     "service-elsewhere",
	Summary:  "The Service that a webhook calls is in another namespace only.",
	Severity: Warning,
	Find: func(p *Profile) []Problem {
		called := p.State.Service
		if p.State.Known || p.Platform || p.Webhook.Backend.Kind == inventory.BackendURL || called.Name == "" || called.Key == scaffolded {
			return nil
		}
		if _, ok := p.Snapshot.Services[called.Key]; ok {
			return nil
		}
		namespaces := p.Snapshot.NamespacesOfService(called.Name)
		// The installer adds its own namespace where a file states none.
		anywhere := slices.ContainsFunc(p.Snapshot.Manifests, func(m inventory.Manifest) bool {
			return m.Kind == "Service" && m.Group == "" && m.Key == inventory.Key{Name: called.Name}
		})
		if len(namespaces) != 1 || anywhere {
			return nil
		}
		severity, consequence := consequences(p)
		return []Problem{{
			Severity: min(severity, Warning),
			Message: fmt.Sprintf("calls %s, and the input has Service %s/%s alone; if %s/%s is not installed by other means, %s",
				BackendName(p), namespaces[0], called.Name, called.Namespace, called.Name, consequence),
			Fix: fmt.Sprintf("set clientConfig.service.namespace to %s%s", quoted(namespaces[0]), byOwner(p)),
		}}
	},
}

// scaffolded is the Service that kubebuilder writes into registrations, for a
// kustomization to rename. Source: kubebuilder's scaffold config/webhook.
var scaffolded = inventory.Key{Namespace: "system", Name: "webhook-service"}
