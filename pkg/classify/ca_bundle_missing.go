package classify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var caBundleMissing = &Check{
	Name:     "ca-bundle-missing",
	Summary:  "A webhook in the cluster has no CA bundle: the API server trusts public CAs alone.",
	Severity: Warning,
	Alerts:   map[Severity]string{Warning: "WebhookCaBundleMissing"},
	For:      5 * time.Minute,
	Find:     findMissingBundle,
}

// findMissingBundle looks at objects of a cluster: the bundle of a manifest
// is still to be injected, if it can be. A URL may well have a
// certificate of a public CA, and the API server trusts itself.
func findMissingBundle(p *Profile) []Problem {
	a, changed := p.Webhook.Backend.Authority, p.Object.LastChanged
	switch {
	case changed.IsZero():
		return misissued(p)
	case a != nil && !a.Placeholder,
		p.Webhook.Backend.Kind != inventory.BackendService,
		p.Snapshot.Taken.Sub(changed) < secondsOf(p.Policy.InjectionGraceSeconds):
		return nil
	}
	what, consequence := "has no CA bundle", "the API server trusts public CAs alone and refuses its certificate"
	if a != nil {
		what, consequence = "has a placeholder for a CA bundle", "the API server finds no certificate in it and makes no call"
	}
	injector := injectorOf(p.Object.Annotations)
	if injector.name == "" {
		return []Problem{{
			Message: what + ", and nothing that would fill it in: " + consequence,
			Fix:     putCA(p) + ", or have service-ca or cert-manager do it" + byOwner(p),
		}}
	}
	return []Problem{{
		Message: fmt.Sprintf("%s, although %s is to inject it (annotation %s) since %s", what, injector.name, injector.annotation, day(changed)),
		Fix:     fmt.Sprintf("%s; and see that no GitOps tool writes caBundle back to empty: its manifest must not mention the field", injector.look),
	}}
}

// misissued finds what is wrong with the Certificate that a manifest has its CA injected from:
// it is not for the Service, or the input has another one that is.
func misissued(p *Profile) []Problem {
	from, service := p.Object.Annotations["cert-manager.io/inject-ca-from"], p.Webhook.Backend.Service.Key
	var named, fitting *inventory.IssuedCertificate
	for _, c := range p.Snapshot.IssuedCertificates {
		if c.Namespace+"/"+c.Name == from {
			named = c
		}
		if c.IsFor(service) {
			fitting = c
		}
	}
	severity, consequence := consequences(p)
	problem := Problem{Severity: min(severity, Warning)}
	_, hasService := p.Snapshot.Services[service] // else its name or namespace may be the one that is wrong
	switch {
	case from == "" || p.Webhook.Backend.Kind != inventory.BackendService || isPlaceholder(from) ||
		named != nil && slices.ContainsFunc(named.Spec.DNSNames, isPlaceholder):
		return nil
	case named == nil && fitting != nil:
		problem.Message = fmt.Sprintf("gets its CA bundle from Certificate %s, which the input lacks, while %s/%s is for its Service: the bundle stays empty; %s",
			from, fitting.Namespace, fitting.Name, consequence)
		problem.Fix = fmt.Sprintf("set the annotation cert-manager.io/inject-ca-from to %s/%s%s",
			fitting.Namespace, fitting.Name, byOwner(p))
	case named != nil && fitting == nil && !named.Spec.IsCA && hasService:
		problem.Message = fmt.Sprintf("gets its CA bundle from Certificate %s, which is for %s, not for %s.%s.svc: calls fail; %s",
			from, cmp.Or(JoinBounded(named.Spec.DNSNames), "no DNS name"), service.Name, service.Namespace, consequence)
		problem.Fix = fmt.Sprintf("add %s.%s.svc to spec.dnsNames of the Certificate", service.Name, service.Namespace)
	default:
		return nil
	}
	return []Problem{problem}
}

// isPlaceholder reports whether a kustomization is still to replace the name, as $(SERVICE_NAME) or SERVICE_NAME.
func isPlaceholder(name string) bool { return strings.ToLower(name) != name }

// injector injects CA bundles where an annotation asks for it.
type injector struct{ annotation, name, look string }

var injectors = []injector{
	{"service.beta.openshift.io/inject-cabundle", "service-ca", "see why service-ca does not: kubectl logs -n openshift-service-ca deployment/service-ca"},
	{"cert-manager.io/inject-ca-from", "cert-manager", "see whether the Certificate that it names is ready, and the log: kubectl logs -n cert-manager deployment/cert-manager-cainjector"},
	{"cert-manager.io/inject-ca-from-secret", "cert-manager", "see whether the Secret that it names exists and is annotated cert-manager.io/allow-direct-injection, and the log: kubectl logs -n cert-manager deployment/cert-manager-cainjector"},
	{"cert-manager.io/inject-apiserver-ca", "cert-manager", "see the log: kubectl logs -n cert-manager deployment/cert-manager-cainjector"},
}

// injectorOf returns the injector that an annotation asks for, the zero injector
// without one.
func injectorOf(annotations map[string]string) injector {
	for _, injector := range injectors {
		if value := annotations[injector.annotation]; value != "" && !strings.EqualFold(value, "false") {
			return injector
		}
	}
	return injector{}
}
