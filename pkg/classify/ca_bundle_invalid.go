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
	Fails:           true,
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
			Fix:      renew(p),
		}}
	},
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
