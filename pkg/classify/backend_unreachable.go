package classify

import (
	"fmt"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var backendUnreachable = &Check{
	Name:     "backend-unreachable",
	Summary:  "The probe finds that a backend refuses connections, or that there is no way to it.",
	Severity: Warning,
	Alerts:   map[Severity]string{Warning: "WebhookBackendUnreachable"},
	For:      15 * time.Minute,
	Cause:    "Backend cannot be reached",
	Find: func(p *Profile) []Problem {
		if !p.unreachable() {
			return nil
		}
		probe := p.Snapshot.Probes[p.Ref]
		severity, consequence := consequences(p)
		severity, from := min(severity, Warning), "from where the auditor runs"
		if probe.Outside {
			severity, from = Info, "by the auditor, which runs outside the cluster"
		}
		return []Problem{{
			Severity: severity,
			Message: fmt.Sprintf("calls %s, which cannot be reached %s (%s); if the API server fares no better, %s",
				BackendName(p), from, probe.Error, consequence),
			Fix: reachAdvice(p),
		}}
	},
}

// unreachable reports whether the probe found no way to the backend.
func (p *Profile) unreachable() bool {
	return p.Snapshot.Probes[p.Ref].Answer == inventory.AnswerUnreachable
}

// reachAdvice says how to find out whether no process listens or the network is blocked.
func reachAdvice(p *Profile) string {
	if p.Webhook.Backend.Kind == inventory.BackendURL {
		return fmt.Sprintf("see that %s resolves and listens, from the hosts of the API servers too; %s", quoted(p.Webhook.Backend.Host()), removal(p))
	}
	return fmt.Sprintf("see that the Pods listen on the targetPort of the Service, and that network policies let the API servers in: kubectl get networkpolicies %s", ShellFlag("-n", p.State.Service.Namespace))
}
