package classify

import (
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var longTimeout = &Check{
	Name:     "long-timeout",
	Summary:  "A webhook may hold every request that it intercepts for longer than 15 s.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if p.Platform || p.Type == inventory.Conversion || p.Timeout <= secondsOf(p.Policy.LongTimeoutSeconds) {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("may hold each request for %s (timeoutSeconds), while clients wait 30 s for all webhooks together", text.Seconds(p.Timeout)),
			Fix:     patch(p, set(p, "timeoutSeconds", min(10, p.Policy.LongTimeoutSeconds))),
		}}
	},
}
