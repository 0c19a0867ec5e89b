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
		severity, place := min(severity, Warning), "from where the auditor runs"
		if probe.Outside {
			severity, place = Info, "by the auditor, which runs outside the cluster"
		}
		return []Problem{{
			Severity: severity,
			Message: fmt.Sprintf("calls %s, which cannot be reached %s (%s); if the API server fares no better, %s",
				BackendName(p), place, probe.Error, consequence),
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

var servingCertificate = &Check{
	Name:     "serving-certificate",
	Summary:  "The probe finds a certificate that the API server refuses, or will soon, or none.",
	Severity: Warning,
	Alerts:   map[Severity]string{Warning: "WebhookServingCertificate"},
	For:      15 * time.Minute,
	Cause:    "API servers refuse its certificate",
	Find:     findServingCertificate,
}

func findServingCertificate(p *Profile) []Problem {
	probe, dialed := p.Snapshot.Probes[p.Ref]
	if !dialed {
		return nil
	}
	severity, consequence := consequences(p)
	problem := Problem{Severity: min(severity, Warning), Fix: renewal(p, probe.Certificate)}
	dialer, meets := "the auditor", "the API server refuses it, and "+consequence
	if probe.Outside { // the address may be another network's there
		problem = Problem{Severity: Info, Fix: "run webhook-auditor in the cluster, with --probe=tls"}
		dialer, meets = "the auditor, outside the cluster,", "another host may have answered, so what the API server meets is not known"
	}
	faults := certificateFaults(p, probe.Certificate)
	switch {
	case probe.Answer == inventory.AnswerNoTLS:
		problem.Message = fmt.Sprintf("calls %s, which does not answer with TLS where %s dials it (%s); %s", BackendName(p), dialer, probe.Error, meets)
	case len(faults) == 0:
		return overdue(p, probe)
	default:
		problem.Message = fmt.Sprintf("calls %s, which shows %s a certificate that %s; %s", BackendName(p), dialer, sentence(faults, 0), meets)
	}
	return []Problem{problem}
}

// certificateFaults say of a certificate why the API server refuses it. What
// is due to the CA bundle alone is reported by the checks of that.
func certificateFaults(p *Profile, c *inventory.ServingCertificate) []string {
	if c == nil {
		return nil
	}
	var out []string
	switch snapshotTime := p.Snapshot.Taken; {
	case snapshotTime.After(c.NotAfter):
		out = append(out, "expired on "+day(c.NotAfter))
	case snapshotTime.Before(c.NotBefore):
		out = append(out, "is not valid before "+day(c.NotBefore))
	}
	if a := p.Webhook.Backend.Authority; c.Untrusted != "" && a != nil && anyValid(a, p.Snapshot.Taken) {
		out = append(out, fmt.Sprintf("no CA of its CA bundle vouches for (%s)", c.Untrusted))
	}
	if c.Misnamed != "" {
		out = append(out, fmt.Sprintf("is not for the name %s (%s)", p.Webhook.Backend.ServerName(), c.Misnamed))
	}
	return out
}

// overdue reports a certificate that should have been renewed by now. Those
// who renew certificates do so with a third of their time left: a certificate
// that is valid for a day is not reported all day long.
func overdue(p *Profile, probe inventory.Probe) []Problem {
	c := probe.Certificate
	if c == nil {
		return nil
	}
	notice := min(time.Duration(p.Policy.CAExpiryDays)*24*time.Hour, c.NotAfter.Sub(c.NotBefore)/5)
	if c.NotAfter.Sub(p.Snapshot.Taken) >= notice {
		return nil
	}
	message := fmt.Sprintf("calls %s, which shows the auditor a certificate that expires on %s", BackendName(p), day(c.NotAfter))
	if !probe.Outside {
		message += "; from then on the API server refuses it"
	}
	return []Problem{{Message: message, Fix: renewal(p, c)}}
}

func renewal(p *Profile, c *inventory.ServingCertificate) string {
	const restart = "restart its Pods if they do not read it again"
	injector := injectorOf(p.Object.Annotations)
	switch {
	case c == nil:
		return "see that the port leads to the HTTPS listener of the backend, with TLS 1.2 or newer"
	case c.Misnamed != "" || c.Untrusted == "" || p.Snapshot.Taken.After(c.NotAfter):
		return fmt.Sprintf("issue the backend a new certificate for the DNS name %s, and %s", quoted(p.Webhook.Backend.ServerName()), restart)
	case injector.name != "":
		return fmt.Sprintf("have the backend serve the certificate that %s signed last (%s); else %s", injector.name, restart, injector.look)
	}
	return fmt.Sprintf("put the CA that signed the certificate into clientConfig.caBundle of %s, or have the backend serve the one that the CA bundle vouches for (%s)%s",
		ObjectName(p), restart, byOwner(p))
}
