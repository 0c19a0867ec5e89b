package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// maxSlow bounds the webhooks of which a text says how many calls are slow.
const maxSlow = 5

// timeoutNotes say of which webhooks calls took longer than the default timeout, and which
// timeout would have been enough for the others. Of calls that fail, the time says nothing.
func timeoutNotes(lines []TopWebhook) []string {
	var out []string
	bySlow := slices.SortedStableFunc(slices.Values(lines), func(a, b TopWebhook) int { return cmp.Compare(b.Observed.SlowShare, a.Observed.SlowShare) })
	most, measured, failing := 0.0, 0, false
	for _, line := range bySlow {
		o := line.Observed
		switch {
		case o.Failing > 0:
			failing = true
		case o.EnoughSeconds == nil:
		case o.SlowShare > 0 && len(out) < maxSlow:
			out = append(out, fmt.Sprintf("%s: %s of its calls took longer than %d s; a timeout of %s would have been enough for 99.9%% of them.", line.Name, impact.Percent(o.SlowShare), inventory.SlowSeconds, timeoutText(o)))
		case !o.EnoughBeyond:
			most, measured = max(most, *o.EnoughSeconds), measured+1
		}
	}
	if measured > 0 {
		which := "each webhook"
		if len(out) > 0 || failing {
			which = "each other webhook"
		}
		out = append(out, fmt.Sprintf("A timeout of %g s would have been enough for 99.9%% of the calls of %s.", math.Ceil(most), which))
	}
	return out
}

// timeoutText is a timeout in whole seconds, as registrations have it.
func timeoutText(o Observed) string {
	if o.EnoughBeyond {
		return fmt.Sprintf("more than %g s", *o.EnoughSeconds)
	}
	return fmt.Sprintf("%g s", math.Ceil(*o.EnoughSeconds))
}
