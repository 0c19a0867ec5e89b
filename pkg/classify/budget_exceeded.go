package classify

import (
	"fmt"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var budgetExceeded = &Check{
	Name:     "budget-exceeded",
	Summary:  "The webhooks of one request take longer, or are more, than the Policy allows.",
	Severity: Warning,
	Alerts:   map[Severity]string{Warning: "WebhookBudgetExceeded"},
	For:      15 * time.Minute,
	Find: func(p *Profile) []Problem {
		var out []Problem
		for _, e := range p.Excesses {
			if !contributes(p, e) {
				continue
			}
			out = append(out, Problem{
				Resource: e.Resource,
				Message: fmt.Sprintf("is one of %d webhooks that %s meets, which wait %s at worst%s: the budget allows %s",
					e.Webhooks, where(e.Cost), text.Seconds(e.Total()), endedBy(p, e.Cost), allowance(e.Allowed)),
				Fix: fmt.Sprintf("shorten its timeoutSeconds (now %s), take %s out of its %s, or register fewer webhooks for it; what takes how long: %s%s",
					text.Seconds(p.Timeout), quoted(e.Resource.String()), rulesFor(p, []inventory.Resource{e.Resource}),
					explainCommand(e.Cost), byOwner(p)),
			})
		}
		return out
	},
}

// contributes reports whether the budget would be exceeded by less without the
// webhook: of the validating ones, which are called at once, only the slowest
// take time.
func contributes(p *Profile, e Excess) bool {
	tooMany := e.Allowed.Webhooks > 0 && e.Webhooks > e.Allowed.Webhooks
	return tooMany || p.Type == inventory.Mutating || p.Timeout == e.Validating
}

// where names the requests.
func where(c Cost) string {
	content := fmt.Sprintf("%s of %s", c.Operation, c.Resource)
	if c.Namespace != "" {
		content += " in namespace " + c.Namespace
	}
	return content
}

// endedBy says that the API server does not wait for all of them.
func endedBy(p *Profile, c Cost) string {
	by, after, ended := admission.End(p.Matcher.Limits(c.Operation, c.Resource), c.Budget)
	if !ended {
		return ""
	}
	return fmt.Sprintf(", or are cut short after %s (%s)", text.Seconds(after), by)
}

func allowance(b Budget) string {
	var words []string
	if b.Seconds > 0 {
		words = append(words, fmt.Sprintf("%d s", b.Seconds))
	}
	if b.Webhooks > 0 {
		words = append(words, fmt.Sprintf("%d webhooks", b.Webhooks))
	}
	return sentence(words, 0)
}
