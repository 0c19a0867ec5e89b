package classify

import (
	"fmt"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var longTimeout = &Check{
	Name:     "long-timeout",
	Summary:  "A webhook may hold every request that it intercepts for longer than 15 s.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if p.Platform || p.Type == inventory.Conversion || p.Timeout <= usefulTimeout(p, p.Policy.LongTimeoutSeconds) {
			return nil
		}
		limit := "while clients wait 30 s for all webhooks together"
		if by, alone := endedAlone(p); alone {
			limit = "not within " + by.String()
		}
		return []Problem{{
			Message: fmt.Sprintf("may hold each request for %s (timeoutSeconds), %s", text.Seconds(p.Timeout), limit),
			Fix:     patch(p, shorten(p, p.Policy.LongTimeoutSeconds)),
		}}
	},
}

// shorten sets a timeoutSeconds that is short enough for all checks: at most those seconds,
// and the API's default.
func shorten(p *Profile, seconds int) edit {
	seconds = min(seconds, 10)
	if p.Outlasting != nil {
		if enough := p.Outlasting.enough(p); enough >= time.Second {
			seconds = min(seconds, int(enough.Seconds()))
		}
	}
	return set(p, "timeoutSeconds", seconds)
}

// usefulTimeout is the number of seconds, or what the platform leaves a webhook alone.
func usefulTimeout(p *Profile, seconds int) time.Duration {
	return min(secondsOf(seconds), p.Matcher.LongestTimeout(p.Type))
}

// endedAlone is the limit that ends a request for which the webhook alone is called. One
// that hangs changes nothing, so that it is not called again.
func endedAlone(p *Profile) (limit admission.Limit, ended bool) {
	budget := admission.Budget{}.Add(p.Webhook, admission.Create)
	budget.Reinvocable = 0
	limit, _, ended = admission.End(p.Matcher.Limits(admission.Create, inventory.Resource{}), budget)
	return limit, ended
}
