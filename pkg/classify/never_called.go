package classify

import (
	"fmt"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var neverCalled = &Check{
	Name:     "never-called",
	Summary:  "No API server called a webhook for a week, as a Prometheus that scrapes them knows.",
	Severity: Info,
	Find:     findNeverCalled,
}

// neverCalledSpan is how long a webhook must not be called to count as never
// called: a week has every day's and every weekend's jobs.
const neverCalledSpan = 7 * 24 * time.Hour

// findNeverCalled is about webhooks that were registered all that week. A
// conversion is needed when an object of another version turns up, however
// seldom.
func findNeverCalled(p *Profile) []Problem {
	o := p.Snapshot.Observed
	if o == nil || !coversLastWeek(o) || o.CalledLastWeek[p.Series()] || p.Type == inventory.Conversion {
		return nil
	}
	weekAgo := p.Snapshot.Taken.Add(-neverCalledSpan)
	if created := p.Object.CreationTimestamp; created.IsZero() || created.After(weekAgo) {
		return nil
	}
	changed := ""
	if p.Object.LastChanged.After(weekAgo) {
		changed = fmt.Sprintf(", though its configuration was changed on %s", day(p.Object.LastChanged))
	}
	return []Problem{{
		Message: fmt.Sprintf("was not called in the last 7 days by any of %d API servers that Prometheus scrapes%s", o.Scraped, changed),
		Fix:     "ask its owner whether it is still needed; if not: " + DisableCommand(p),
	}}
}

// coversLastWeek reports whether a webhook that is not in CalledLastWeek was not
// called: all API servers of the cluster were scraped all that time.
func coversLastWeek(o *inventory.Observation) bool {
	return o.CalledLastWeek != nil && o.Scraped >= max(1, o.OfServers)
}
