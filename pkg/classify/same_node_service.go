package classify

import (
	"fmt"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var sameNodeService = &Check{
	Name:     "same-node-service",
	Summary:  "The Service of a webhook leads to Pods on the API server's own node alone (internalTrafficPolicy Local).",
	Severity: Warning,
	Find: func(p *Profile) []Problem {
		service := p.Snapshot.Services[p.State.Service.Key]
		routed := p.Snapshot.Routing == inventory.RoutingEndpoints // which asks no cluster IP
		if !service.SameNode || routed || p.Platform || p.State.Fault != inventory.Sound || p.Snapshot.Nodes == 1 {
			return nil
		}
		severity, consequence := consequences(p)
		if slices.ContainsFunc(BehindWebhook(p), func(w inventory.Workload) bool { return w.Daemon }) {
			severity = Info // it may run on that node
		}
		return []Problem{{
			Severity: min(severity, Warning),
			Message: fmt.Sprintf("calls %s, whose internalTrafficPolicy Local leads to Pods on the node of the API server, or of its tunnel: where none runs there, calls end in a timeout, and %s",
				BackendName(p), consequence),
			Brief: fmt.Sprintf("Service %s leads to Pods on the API server's own node alone (internalTrafficPolicy Local): without one there, calls end in a timeout", service.Key),
			Fix:   changed("patch", "service", service.Key, `--type=merge -p '{"spec":{"internalTrafficPolicy":"Cluster"}}'`),
		}}
	},
}
