package classify

import (
	"fmt"
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

// findMissingBundle looks at objects of a cluster alone: the bundle of a manifest
// is still to be injected. A URL may well have a
// certificate of a public CA, and the API server trusts itself.
func findMissingBundle(p *Profile) []Problem {
	a, changed := p.Webhook.Backend.Authority, p.Object.LastChanged
	switch {
	case a != nil && !a.Placeholder,
		p.Webhook.Backend.Kind != inventory.BackendService,
		changed.IsZero(),
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
