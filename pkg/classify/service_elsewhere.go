package classify

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var serviceElsewhere = &Check{
	Name:     "service-elsewhere",
	Summary:  "The Service that a webhook calls is missing, and one of almost its name, or in other namespaces, is there.",
	Severity: Warning,
	Find: func(p *Profile) []Problem {
		called := p.State.Service
		if p.State.Known || p.Platform || p.Webhook.Backend.Kind == inventory.BackendURL || called.Name == "" ||
			called.Key == scaffolded || called.Key == apiServers {
			return nil
		}
		if _, ok := p.Snapshot.Services[called.Key]; ok {
			return nil
		}
		severity, consequence := consequences(p)
		likely, found := p.Snapshot.LikelyService(called.Key)
		namespaces := p.Snapshot.NamespacesOfService(called.Name)
		meant, value, field := "", quoted(likely.Namespace), "namespace"
		switch {
		case found && likely.Namespace == called.Namespace:
			value, field = quoted(likely.Name), "name"
			fallthrough
		case found:
			meant = fmt.Sprintf("did you mean Service %s?", likely)
		case len(namespaces) > 1 && !p.Snapshot.Unplaced(called.Name): // which of them, or another one, is unknown
			severity, value = Info, "that of the Service of its software"
			meant = "a Service of that name is in " + theNamespaces(namespaces)
		default:
			return nil
		}
		fix := fmt.Sprintf("set clientConfig.service.%s to %s%s", field, value, byOwner(p))
		if other := sameCaller(p, likely); other != nil { // what an earlier installation left
			meant = fmt.Sprintf("%s, of the same rules, calls Service %s", objectName(&other.Registration), likely)
			fix = "remove it where it is left over of an earlier installation, else " + fix
		}
		return []Problem{{
			Severity: min(severity, Warning),
			Message: fmt.Sprintf("calls %s, which the input lacks (%s); if %s is not installed by other means, %s",
				BackendName(p), meant, called.Key, consequence),
			Fix: fix,
		}}
	},
}

// sameCaller is another webhook of the same rules that calls the Service, nil if there is none.
func sameCaller(p *Profile, service inventory.Key) *inventory.Webhook {
	i := slices.IndexFunc(p.Snapshot.Webhooks, func(w *inventory.Webhook) bool {
		return w.Type == p.Type && w.Backend.Service.Key == service &&
			w.Type != inventory.Conversion && reflect.DeepEqual(w.Rules, p.Rules)
	})
	if i < 0 {
		return nil
	}
	return p.Snapshot.Webhooks[i]
}

// apiServers is the Service of the API servers, which each cluster has.
var apiServers = inventory.Key{Namespace: "default", Name: "kubernetes"}

// scaffolded is the Service that kubebuilder writes into registrations, for a
// kustomization to rename. Source: kubebuilder's scaffold config/webhook.
var scaffolded = inventory.Key{Namespace: "system", Name: "webhook-service"}
