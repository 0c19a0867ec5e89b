package classify

import (
	"context"
	"slices"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Succession judges the Snapshots of one cluster, one after the other. Where
// nothing but endpoints came or went, which is what happens in a cluster all
// day, it judges anew only the webhooks behind them; what time alone changes
// waits for up to a minute then.
type Succession struct {
	Policy Policy
	last   *Report
	// complete is when everything was judged last.
	complete time.Time
}

// completely is after what time everything is judged again: before an unchanged
// Snapshot is published once more.
const completely = 50 * time.Second

// Evaluate is what Policy.Evaluate returns.
func (c *Succession) Evaluate(ctx context.Context, s *inventory.Snapshot) (*Report, error) {
	r, err := c.next(ctx, s)
	if err == nil {
		c.last = r
	}
	return r, err
}

func (c *Succession) next(ctx context.Context, s *inventory.Snapshot) (*Report, error) {
	if c.last != nil && s.Taken.Sub(c.complete).Abs() < completely {
		if moved, only := s.MovedEndpoints(c.last.Snapshot); only {
			return c.Policy.again(c.last, s, moved), nil
		}
	}
	c.complete = s.Taken
	return c.Policy.Evaluate(ctx, s)
}

// again judges the webhooks anew whose endpoints moved.
func (p Policy) again(before *Report, s *inventory.Snapshot, moved map[inventory.Key]bool) *Report {
	r := &Report{
		Snapshot: s, Matcher: before.Matcher, evaluation: &evaluation{},
		Errors:   before.Errors,
		Profiles: slices.Clone(before.Profiles),
		Costs:    before.Costs,
		found:    make([]Finding, 0, len(before.found)+len(Checks)),
		ends:     make([]int, 0, len(before.ends)),
	}
	from := 0
	for i, to := range before.ends {
		profile := &r.Profiles[i]
		profile.Snapshot, profile.Stale = s, nil
		if moved[profile.State.Service.Key()] {
			profile.State = s.State(profile.Webhook.Backend)
			profile.BackendReady = ready(profile.State)
			r.judge(*profile)
		} else {
			r.found = append(r.found, before.found[from:to]...)
			r.ends = append(r.ends, len(r.found))
		}
		from = to
	}
	return p.sum(r)
}
