package classify

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var caBundleInvalid = &Check{
	Name:            "ca-bundle-invalid",
	Summary:         "A webhook's CA bundle holds no certificate that is valid, so that no call can succeed.",
	Severity:        Critical,
	Alerts:          map[Severity]string{Critical: "WebhookCaBundleInvalid", Warning: "WebhookCaBundleInvalidWarning"},
	ConversionAlert: "WebhookConversionCaBundleInvalid",
	For:             5 * time.Minute,
	Cause:           "CA bundle has no valid certificate",
	Find: func(p *Profile) []Problem {
		if !p.isUntrusted() {
			return nil
		}
		a := p.Webhook.Backend.Authority
		severity, consequence := consequences(p)
		why, brief := invalidity(a, p.Snapshot.Taken)
		return []Problem{{
			Severity: severity,
			Message:  fmt.Sprintf("has a CA bundle %s, so that no call succeeds; %s", why, consequence),
			Brief:    briefly(consequence, "its CA bundle "+brief),
			Fix:      mendBundle(p, a),
		}}
	},
}

func (p *Profile) isUntrusted() bool {
	a := p.Webhook.Backend.Authority
	return a != nil && !a.Placeholder && !a.Blanked && !anyValid(a, p.Snapshot.Taken) &&
		!(p.isToApply() && injectorOf(p.Object.Annotations).name != "") // which replaces it
}

// mendBundle is how a CA bundle becomes valid: what was never one is not renewed.
func mendBundle(p *Profile, a *inventory.Authority) string {
	if len(a.Certificates) > 0 {
		return renew(p)
	}
	if injector := injectorOf(p.Object.Annotations); injector.name != "" {
		return injector.look
	}
	was := ""
	if a.Text != "" {
		was = " in place of " + quoted(a.Text)
	}
	return putCA(p) + was + byOwner(p)
}

// putCA is how a bundle gets its CA, and where that mostly is.
func putCA(p *Profile) string {
	out := fmt.Sprintf("put the CA that signed the certificate of %s into clientConfig.caBundle of %s", backend(p), ObjectName(p))
	if service := p.State.Service; service.Name != "" {
		out = fmt.Sprintf("find the CA of the serving certificate: kubectl get secrets %s --field-selector type=kubernetes.io/tls; then %s", ShellFlag("-n", service.Namespace), out)
	}
	return out
}

// invalidity says why no CA of the bundle is valid, at length and in short.
func invalidity(a *inventory.Authority, snapshotTime time.Time) (why, brief string) {
	switch last := a.NotAfter; {
	case len(a.Certificates) == 0:
		return "without a certificate in it (it must be PEM, base64-encoded once)", "has no certificate in it"
	case last.Before(snapshotTime):
		return "whose last CA expired on " + day(last), "expired on " + day(last)
	}
	return "whose CAs are not valid yet", "is not valid yet"
}

var caBundleExpiring = &Check{
	Name:     "ca-bundle-expiring",
	Summary:  "The last valid CA of a webhook's CA bundle expires within 30 days.",
	Severity: Warning,
	Alerts:   map[Severity]string{Warning: "WebhookCaBundleExpiring"},
	For:      time.Hour,
	Find: func(p *Profile) []Problem {
		a, now := p.Webhook.Backend.Authority, p.Snapshot.Taken
		if a == nil {
			return nil
		}
		last := a.NotAfter
		if left := last.Sub(now); left >= time.Duration(p.Policy.CAExpiryDays)*24*time.Hour || !anyValid(a, now) {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("has a CA bundle whose last CA expires on %s; from then on the API server refuses its certificate", day(last)),
			Fix:     renew(p),
		}}
	},
}

// renew is how a CA bundle is renewed: by who injects it, else by hand.
func renew(p *Profile) string {
	if injector := injectorOf(p.Object.Annotations); injector.name != "" {
		return fmt.Sprintf("have %s renew the CA and inject it again: %s", injector.name, injector.look)
	}
	return fmt.Sprintf("renew the CA that signs the certificate of %s, add it to clientConfig.caBundle of %s while the old one is still there, then replace the certificate%s", backend(p), ObjectName(p), byOwner(p))
}

func anyValid(a *inventory.Authority, t time.Time) bool {
	return slices.ContainsFunc(a.Certificates,
		func(c inventory.Certificate) bool { return !t.Before(c.NotBefore) && !t.After(c.NotAfter) })
}

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
	case changed.IsZero(), a != nil && !a.Placeholder,
		p.Webhook.Backend.Kind != inventory.BackendService,
		p.Snapshot.Taken.Sub(changed) < secondsOf(p.Policy.InjectionGraceSeconds):
		return nil
	}
	what, consequence := "has no CA bundle", "the API server trusts public CAs alone and refuses its certificate"
	if a != nil {
		what, consequence = "has a placeholder for a CA bundle", "the API server finds no certificate in it and makes no call"
	}
	follows := ""
	if p.ServesNothing() {
		_, consequence = consequences(p)
		follows = ": " + consequence
	}
	injector := injectorOf(p.Object.Annotations)
	if injector.name == "" {
		return []Problem{{
			Message: what + ", and nothing that would fill it in: " + consequence,
			Fix:     putCA(p) + ", or have service-ca or cert-manager do it" + byOwner(p),
		}}
	}
	return []Problem{{
		Message: fmt.Sprintf("%s, although %s is to inject it (annotation %s) since %s%s", what, injector.name, injector.annotation, day(changed), follows),
		Fix:     fmt.Sprintf("%s; and see that no GitOps tool writes caBundle back to empty: its manifest must not mention the field", injector.look),
	}}
}

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

var bundleConflict = &Check{
	Name:     "bundle-conflict",
	Summary:  "A file holds a CA bundle that an injector replaces: the next server-side apply ends in a conflict.",
	Severity: Warning,
	Find: func(p *Profile) []Problem {
		b, injector := p.Webhook.Backend, injectorOf(p.Object.Annotations)
		if b.CABundle == nil || b.Authority != nil && b.Authority.Blanked || p.Platform || !p.isToApply() ||
			injector.name == "" {
			return nil
		}
		upgradeNote := ""
		if p.isUnserved() {
			upgradeNote = "; from v1.31 on the API server refuses any second apply of the CRD"
		}
		return []Problem{{
			Message: fmt.Sprintf("has a caBundle in the file, and an annotation by which %s replaces it (%s): the first upgrade with Helm 4 or Fleet ends in a conflict over clientConfig.caBundle; Flux forces the bundle of the file, and calls fail until the injector has written its own%s", injector.name, injector.annotation, upgradeNote),
			Brief:   fmt.Sprintf("the file has a caBundle that %s replaces: an upgrade with Helm 4 or Fleet ends in a conflict, Flux forces it and calls fail%s", injector.name, upgradeNote),
			Fix:     fmt.Sprintf("leave caBundle of %s out of the file; where the conflict is there already, take the field over once, with --server-side --force-conflicts", ObjectName(p)),
		}}
	},
}
