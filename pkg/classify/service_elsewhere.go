package classify

import (
	"fmt"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var serviceElsewhere = &Check{
	Name:     "service-elsewhere",
	Summary:  "The Service that a webhook calls is in other namespaces only.",
	Severity: Warning,
	Find: func(p *Profile) []Problem {
		called := p.State.Service
		if p.State.Known || p.Platform || p.Webhook.Backend.Kind == inventory.BackendURL || called.Name == "" || called.Key == scaffolded || called.Key == apiServers {
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
		if len(namespaces) == 0 || anywhere {
			return nil
		}
		which := quoted(namespaces[0])
		if len(namespaces) > 1 {
			which = "that of the Service of its software"
		}
		severity, consequence := consequences(p)
		if len(namespaces) > 1 { // which of them is meant, or another one, is not known
			severity = Info
		}
		return []Problem{{
			Severity: min(severity, Warning),
			Message: fmt.Sprintf("calls %s, and the input has Service %s in %s alone; if %s/%s is not installed by other means, %s",
				BackendName(p), called.Name, theNamespaces(namespaces), called.Namespace, called.Name, consequence),
			Fix: fmt.Sprintf("set clientConfig.service.namespace to %s%s", which, byOwner(p)),
		}}
	},
}

// apiServers is the Service of the API servers, which each cluster has.
var apiServers = inventory.Key{Namespace: "default", Name: "kubernetes"}

// scaffolded is the Service that kubebuilder writes into registrations, for a
// kustomization to rename. Source: kubebuilder's scaffold config/webhook.
var scaffolded = inventory.Key{Namespace: "system", Name: "webhook-service"}
