package classify

import (
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var anyPodMayCall = &Check{
	Name:     "any-pod-may-call",
	Summary:  "No NetworkPolicy closes the port of a webhook to other Pods: each of them may send it reviews.",
	Severity: Info,
	OptIn:    true,
	Find: func(p *Profile) []Problem {
		if p.Platform || p.Webhook.Backend.Kind != inventory.BackendService {
			return nil
		}
		for _, w := range BehindWebhook(p) {
			port := p.Snapshot.TargetPort(p.State.Service, &w)
			if port == 0 || w.HostNetwork || p.Snapshot.ClosedToPods(&w, port) {
				continue
			}
			unless := ""
			if name := pluginPolicy(p); name != "" {
				unless = fmt.Sprintf("; %s may close it, and is not read", name)
			}
			return []Problem{{
				Message: fmt.Sprintf("calls %s, and any Pod of the cluster may call port %d of %s too: API servers send no credentials by default, so the backend cannot distinguish the callers%s", BackendName(p), port, &w, unless),
				Fix:     fmt.Sprintf("close port %d to Pods %s%s", port, fromAPIServer(p.Snapshot), byOwner(p)),
			}}
		}
		return nil
	},
}
