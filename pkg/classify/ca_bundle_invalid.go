package classify

import (
	"fmt"
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
		a := p.Webhook.Backend.Authority
		if a == nil || a.Placeholder || a.TooLarge || a.Blanked || anyValid(a, p.Snapshot.Taken) ||
			p.isToApply() && injectorOf(p.Object.Annotations).name != "" { // which replaces it
			return nil
		}
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
