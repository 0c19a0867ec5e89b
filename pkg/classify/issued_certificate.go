package classify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var issuedCertificate = &Check{
	Name:     "issued-certificate",
	Summary:  "The Certificate that cert-manager is to issue for a webhook is for another Service, or another Secret than its Pods mount.",
	Severity: Warning,
	Find: func(p *Profile) []Problem {
		if p.Webhook.Backend.Kind != inventory.BackendService || len(p.Snapshot.IssuedCertificates) == 0 {
			return nil
		}
		for _, find := range []func(*Profile) *Problem{misissued, unmounted} {
			if problem := find(p); problem != nil {
				severity, consequence := consequences(p)
				problem.Severity = min(severity, Warning)
				problem.Message += "; " + consequence
				return []Problem{*problem}
			}
		}
		return nil
	},
}

// misissued finds what is wrong with the Certificate that a manifest has its CA injected from:
// it is not for the Service, or the input has another one that is.
func misissued(p *Profile) *Problem {
	source, service := p.Object.Annotations["cert-manager.io/inject-ca-from"], p.Webhook.Backend.Service.Key
	var named, fitting *inventory.IssuedCertificate
	for _, c := range p.Snapshot.IssuedCertificates {
		if c.Namespace+"/"+c.Name == source {
			named = c
		}
		if c.IsFor(service) {
			fitting = c
		}
	}
	_, hasService := p.Snapshot.Services[service] // else its name or namespace may be the one that is wrong
	switch {
	case !p.Object.LastChanged.IsZero(), source == "" || isPlaceholder(source),
		named != nil && slices.ContainsFunc(named.Spec.DNSNames, isPlaceholder):
		return nil
	case named == nil && fitting != nil && !isUnplaced(p, fitting):
		return &Problem{
			Message: fmt.Sprintf("gets its CA bundle from Certificate %s, which the input lacks, while %s/%s is for its Service: the bundle stays empty",
				source, fitting.Namespace, fitting.Name),
			Fix: fmt.Sprintf("set the annotation cert-manager.io/inject-ca-from to %s%s", quoted(fitting.Namespace+"/"+fitting.Name), byOwner(p)),
		}
	case named != nil && fitting == nil && !named.Spec.IsCA && hasService:
		return &Problem{
			Message: fmt.Sprintf("gets its CA bundle from Certificate %s, which is for %s, not for %s.%s.svc: calls fail",
				source, cmp.Or(JoinBounded(named.Spec.DNSNames), "no DNS name"), service.Name, service.Namespace),
			Fix: fmt.Sprintf("add %s to spec.dnsNames of the Certificate", quoted(service.Name+"."+service.Namespace+".svc")),
		}
	}
	return nil
}

// unmounted finds Pods that mount a Secret for a certificate which nothing in the input makes,
// while the Certificate for their Service is for another Secret, or in another namespace.
func unmounted(p *Profile) *Problem {
	made := func(namespace, secret string) bool {
		return slices.ContainsFunc(p.Snapshot.IssuedCertificates, func(c *inventory.IssuedCertificate) bool {
			return c.Spec.SecretName == secret && (c.Namespace == namespace || isUnplaced(p, c))
		}) || slices.ContainsFunc(p.Snapshot.Manifests, func(m inventory.Manifest) bool {
			return m.Kind == "Secret" && m.Name == secret && (m.Namespace == "" || m.Namespace == namespace)
		})
	}
	for _, w := range BehindWebhook(p) {
		mounted := slices.DeleteFunc(slices.Clone(w.Secrets), func(name string) bool { return !holdsCertificate(name) })
		if len(mounted) != 1 || made(w.Namespace, mounted[0]) {
			continue
		}
		for _, c := range p.Snapshot.IssuedCertificates {
			if !c.IsFor(p.Webhook.Backend.Service.Key) {
				continue
			}
			fix := "set spec.secretName of the Certificate to " + quoted(mounted[0])
			if c.Spec.SecretName == mounted[0] {
				fix = "move the Certificate to namespace " + quoted(w.Namespace)
			}
			return &Problem{
				Message: fmt.Sprintf("is served by %s, whose Pods mount Secret %s, while Certificate %s/%s for its Service makes Secret %[3]s/%[5]s: if nothing else makes the one they mount, they do not start",
					w, mounted[0], c.Namespace, c.Name, c.Spec.SecretName),
				Brief: fmt.Sprintf("the Pods do not start: they mount Secret %s/%s, and Certificate %s/%s makes Secret %[3]s/%[5]s",
					w.Namespace, mounted[0], c.Namespace, c.Name, c.Spec.SecretName),
				Fix: fix,
			}
		}
	}
	return nil
}

// holdsCertificate reports whether the name of a Secret says that it is for a certificate.
func holdsCertificate(secret string) bool {
	return strings.Contains(secret, "cert") || strings.Contains(secret, "tls")
}

// isUnplaced reports whether the file of the Certificate states no namespace, so that the
// installer adds its own.
func isUnplaced(p *Profile, c *inventory.IssuedCertificate) bool {
	return slices.ContainsFunc(p.Snapshot.Manifests, func(m inventory.Manifest) bool {
		return m.Kind == "Certificate" && m.Name == c.Name && m.Namespace == ""
	})
}

// isPlaceholder reports whether a kustomization is still to replace the name, as $(SERVICE_NAME) or SERVICE_NAME.
func isPlaceholder(name string) bool { return strings.ToLower(name) != name }
