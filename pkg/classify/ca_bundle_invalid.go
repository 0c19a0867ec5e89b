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
		return []Problem{{
			Severity: severity,
			Message:  fmt.Sprintf("has a CA bundle %s, so that no call succeeds; %s", invalidity(a, p.Snapshot.Taken), consequence),
			Brief:    briefly(consequence, "its CA bundle "+untrusted(a, p.Snapshot.Taken)),
			Fix:      renew(p),
		}}
	},
}

func invalidity(a *inventory.Authority, taken time.Time) string {
	switch last := a.NotAfter; {
	case len(a.Certificates) == 0:
		return "without a certificate in it (it must be PEM, base64-encoded once)"
	case last.Before(taken):
		return "whose last CA expired on " + day(last)
	}
	return "whose CAs are not valid yet"
}

// untrusted says the same of the CA bundle in short.
func untrusted(a *inventory.Authority, taken time.Time) string {
	if len(a.Certificates) == 0 {
		return "has no certificate in it"
	}
	if a.NotAfter.Before(taken) {
		return "expired on " + day(a.NotAfter)
	}
	return "is not valid yet"
}
