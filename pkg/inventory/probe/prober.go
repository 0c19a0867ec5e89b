// Package probe dials the backends of webhooks as the API server does, looks at
// their certificates, and hangs up before any request. It reports what is seen
// from where the auditor runs.
package probe

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Options are how backends are dialed. The zero Options are the defaults.
type Options struct {
	// URLs says that the backends that are URLs are dialed as well: they are
	// another owner's, who did not ask for it.
	URLs bool
	// Outside says that the auditor does not run in the cluster: at the address of a
	// Service another host may answer it.
	Outside bool
	// Timeout bounds one dial with its handshake; 5 s if zero.
	Timeout time.Duration
	// Dial replaces the network: a tunnel into the cluster, say, or a test's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// parallel is how many backends are dialed at a time: enough for thousands
// within an interval, few enough not to look like a scan.
const parallel = 16

// interval is the least time between two dials of a backend that is well. Others are
// dialed again sooner.
const interval = 5 * time.Minute

func (o Options) timeout() time.Duration { return cmp.Or(o.Timeout, 5*time.Second) }

// firstRetry is the time to the second dial after one that failed or was inconclusive:
// a busy machine or network needs a few seconds. It doubles, of a failed one up to
// longestRetry, else up to the interval.
const (
	firstRetry   = 5 * time.Second
	longestRetry = time.Minute
)

// pause returns how long an outcome counts: an interval, or less where the last dials did
// not find the backend well. It differs from dial to dial, so that several auditors do not
// dial in step.
func (o Options) pause(outcome outcome) time.Duration {
	pause := interval
	if outcome.failures > 0 && outcome.failures < 16 {
		pause = min(pause, firstRetry<<(outcome.failures-1))
	}
	if outcome.failed() {
		pause = min(pause, longestRetry)
	}
	return pause + rand.N(pause/5+1)
}

// Look dials the backends of the Snapshot's webhooks once, and returns the
// Snapshot with what that showed.
func Look(ctx context.Context, s *inventory.Snapshot, o Options) *inventory.Snapshot {
	targets := o.targets(s)
	outcomes := map[string]outcome{}
	for i, result := range o.dialAll(ctx, targets) {
		outcomes[targets[i].host] = result
	}
	out := *s
	out.Probes = probes(targets, outcomes)
	return &out
}

// Prober stands between the watch of a cluster and the reader of its Snapshots:
// it adds what dialing the backends shows.
type Prober struct {
	options Options
	publish func(*admission.Matcher)
	// wakeup has room for one: it says that there is a new Snapshot.
	wakeup chan struct{}

	mu sync.Mutex
	// matcher is that of the last Snapshot, nil before the first.
	matcher  *admission.Matcher
	outcomes map[string]outcome
}

// New returns a Prober that calls publish, never twice at a time.
func New(o Options, publish func(*admission.Matcher)) *Prober {
	return &Prober{options: o, publish: publish, wakeup: make(chan struct{}, 1), outcomes: map[string]outcome{}}
}

// Publish publishes the Snapshot at once, with what is known of its backends.
func (p *Prober) Publish(m *admission.Matcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.matcher = m
	p.publishLocked()
	select {
	case p.wakeup <- struct{}{}:
	default:
	}
}

// publishLocked is called with the lock held, so that nothing older comes later. A failure
// is forgotten once other endpoints are ready than those that it is of.
func (p *Prober) publishLocked() {
	targets := p.options.targets(p.matcher.Snapshot)
	ready := map[string]string{}
	for _, t := range targets {
		ready[t.host] = t.ready
	}
	maps.DeleteFunc(p.outcomes, func(host string, outcome outcome) bool {
		now, called := ready[host]
		return outcome.failed() && (!called || now != outcome.ready)
	})
	p.publish(p.matcher.WithProbes(probes(targets, p.outcomes)))
}

// Run dials until ctx is done: a new backend, one whose CA bundles changed, one that is
// no longer at the address that was dialed and one that failed before other endpoints
// became ready at once, one that is not well soon again, the others at each interval. It
// returns the error of ctx.
func (p *Prober) Run(ctx context.Context) error {
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.wakeup:
		case <-timer.C:
		}
		p.round(ctx)
		timer.Reset(p.next())
	}
}

func (p *Prober) round(ctx context.Context) {
	due := p.due(time.Now())
	if len(due) == 0 {
		return
	}
	results := p.options.dialAll(ctx, due)
	if ctx.Err() != nil {
		return // what was cut off shows nothing
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, t := range due {
		p.outcomes[t.host] = results[i]
	}
	p.publishLocked()
}

// due returns what to dial now. What is no longer called is forgotten after
// an interval: a backend that comes and goes is not dialed each time.
func (p *Prober) due(now time.Time) []target {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.matcher == nil {
		return nil
	}
	stale := func(outcome outcome) bool { return !now.Before(outcome.nextDial) }
	called := map[string]bool{}
	var due []target
	for _, t := range p.options.targets(p.matcher.Snapshot) {
		called[t.host] = true
		result, ok := p.outcomes[t.host]
		t.turn, t.failures, t.settling = result.turn, result.failures, ok && t.moved(result)
		if !ok || stale(result) || !slices.Contains(t.addresses, result.address) || t.settling || t.unverified(result) {
			due = append(due, t)
		}
	}
	maps.DeleteFunc(p.outcomes, func(host string, outcome outcome) bool { return !called[host] && stale(outcome) })
	return due
}

// unverified reports whether a caller has another CA bundle than at the dial.
func (t target) unverified(outcome outcome) bool {
	return len(outcome.certificates) > 0 &&
		slices.ContainsFunc(t.callers, func(c caller) bool { return outcome.certificates[c.bundle] == nil })
}

// moved reports whether all endpoints that are ready became so after the dial: behind a
// cluster IP, which stays, nothing else shows that.
func (t target) moved(outcome outcome) bool {
	before := strings.Split(outcome.ready, ",")
	return t.ready != "" && !slices.ContainsFunc(strings.Split(t.ready, ","),
		func(a string) bool { return slices.Contains(before, a) })
}

func (p *Prober) next() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := interval
	for _, result := range p.outcomes {
		wait = min(wait, time.Until(result.nextDial))
	}
	return max(0, wait)
}
