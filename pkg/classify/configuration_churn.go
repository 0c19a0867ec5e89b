package classify

import (
	"fmt"
	"time"
)

var configurationChurn = &Check{
	Name:     "configuration-churn",
	Summary:  "A configuration is rewritten more than once a minute, all the time.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if p.Index > 0 { // reported once, with the configuration's first webhook
			return nil
		}
		o := &p.Object // not by value: the check runs at each change
		age := p.Snapshot.Taken.Sub(o.CreationTimestamp)
		quiet := p.Snapshot.Taken.Sub(o.LastChanged)
		if o.CreationTimestamp.IsZero() || age < youngest || quiet > recent || float64(o.Generation) < age.Minutes() {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("belongs to a configuration that was rewritten %d times in %s: two writers undo each other's changes%s", o.Generation, age.Round(time.Minute), writers(p)),
			Fix:     fmt.Sprintf("see who writes: kubectl get %s -o yaml --show-managed-fields; then leave the selectors and the CA bundle to one of them", ObjectName(p)),
		}}
	},
}

const (
	// youngest is how old an object must be for its average to mean anything:
	// policy engines rewrite theirs in bursts.
	youngest = 15 * time.Minute
	recent   = 10 * time.Minute
)

func writers(p *Profile) string {
	if len(p.Object.Writers) == 0 {
		return ""
	}
	return " (" + JoinBounded(p.Object.Writers) + ")"
}
