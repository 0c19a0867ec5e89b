package classify

import (
	"fmt"
	"slices"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var caBundleExpiring = &Check{
	Name:     "ca-bundle-expiring",
	Summary:  "The last valid CA of a webhook's CA bundle expires within 30 days.",
	Severity: Warning,
	Alerts:   map[Severity]string{Warning: "WebhookCaBundleExpiring"},
	For:      time.Hour,
	Find: func(p *Profile) []Problem {
		a, taken := p.Webhook.Backend.Authority, p.Snapshot.Taken
		if a == nil {
			return nil
		}
		last := a.NotAfter
		if left := last.Sub(taken); left >= time.Duration(p.Policy.CAExpiryDays)*24*time.Hour || !anyValid(a, taken) {
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

// anyValid reports whether a CA of the bundle is valid at the time.
func anyValid(a *inventory.Authority, t time.Time) bool {
	return slices.ContainsFunc(a.Certificates,
		func(c inventory.Certificate) bool { return !t.Before(c.NotBefore) && !t.After(c.NotAfter) })
}
