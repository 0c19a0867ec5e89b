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
	// Interval is the least time between two dials of a backend that answered;
	// 5 min if zero. One that gave no answer is dialed again sooner.
	Interval time.Duration
	// Timeout bounds one dial with its handshake; 5 s if zero.
	Timeout time.Duration
	// Dial replaces the network: a tunnel into the cluster, say, or a test's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// parallel is how many backends are dialed at a time: enough for thousands
// within an interval, few enough not to look like a scan.
const parallel = 16

func (o Options) interval() time.Duration { return cmp.Or(o.Interval, 5*time.Minute) }

func (o Options) timeout() time.Duration { return cmp.Or(o.Timeout, 5*time.Second) }

// firstRetry is the time to the second dial after one that was inconclusive:
// a busy machine or network needs a few seconds. It doubles up to the interval.
const firstRetry = 5 * time.Second

// pause returns how long an outcome counts: an interval, or less where the last
// dials, as many as unanswered, were inconclusive. It differs from dial to dial,
// so that several auditors do not dial in step.
func (o Options) pause(unanswered int) time.Duration {
	pause := o.interval()
	if unanswered > 0 && unanswered < 16 {
		pause = min(pause, firstRetry<<(unanswered-1))
	}
	return pause + rand.N(pause/5+1)
}

// Look dials the backends of the Snapshot's webhooks once, and returns the
// Snapshot with what that showed.
func Look(ctx context.Context, s *inventory.Snapshot, o Options) *inventory.Snapshot {
	targets := o.targets(s)
	known := map[backend]outcome{}
	for i, seen := range o.dialAll(ctx, targets) {
		known[targets[i].backend] = seen
	}
	out := *s
	out.Probes = probes(targets, known)
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
	matcher *admission.Matcher
	known   map[backend]outcome
}

// New returns a Prober that calls publish, never twice at a time.
func New(o Options, publish func(*admission.Matcher)) *Prober {
	return &Prober{options: o, publish: publish, wakeup: make(chan struct{}, 1), known: map[backend]outcome{}}
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

// publishLocked is called with the lock held, so that nothing older comes later.
func (p *Prober) publishLocked() {
	p.publish(p.matcher.WithProbes(probes(p.options.targets(p.matcher.Snapshot), p.known)))
}

// Run dials until ctx is done: a new backend, one whose CA bundles changed, and
// one that is no longer at the address that was dialed, at once, one that gave
// no answer soon again, the others at each interval. It returns the error of ctx.
func (p *Prober) Run(ctx context.Context) error {
	timer := time.NewTimer(p.options.interval())
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

// round dials what is due and publishes again if that was anything.
func (p *Prober) round(ctx context.Context) {
	due := p.due(time.Now())
	if len(due) == 0 {
		return
	}
	seen := p.options.dialAll(ctx, due)
	if ctx.Err() != nil {
		return // what was cut off shows nothing
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, t := range due {
		p.known[t.backend] = seen[i]
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
	stale := func(seen outcome) bool { return !now.Before(seen.again) }
	called := map[backend]bool{}
	var due []target
	for _, t := range p.options.targets(p.matcher.Snapshot) {
		called[t.backend] = true
		seen, ok := p.known[t.backend]
		if t.turn, t.unanswered = seen.turn, seen.unanswered; !ok || stale(seen) || !slices.Contains(t.addresses, seen.address) {
			due = append(due, t)
		}
	}
	maps.DeleteFunc(p.known, func(b backend, seen outcome) bool { return !called[b] && stale(seen) })
	return due
}

// next returns how long nothing is due.
func (p *Prober) next() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := p.options.interval()
	for _, seen := range p.known {
		wait = min(wait, time.Until(seen.again))
	}
	return max(0, wait)
}
