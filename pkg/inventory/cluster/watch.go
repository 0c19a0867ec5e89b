// Package cluster watches the part of a cluster that concerns webhooks and
// publishes an inventory.Snapshot at each change, or reads that part once.
//
// Each kind is watched in the whole cluster, stripped to what is read. Of Services, Pods
// and what is around them, a Snapshot shows those on which a webhook depends.
package cluster

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Options configure Watch and Read. The zero Options are the defaults.
type Options struct {
	// Debounce is the minimum time between two Snapshots while changes keep
	// coming; 100 ms if zero.
	Debounce time.Duration
	// Routing is where the API server sends calls to Services; RoutingUnknown
	// takes what the cluster shows.
	Routing inventory.Routing
	// Applied, if any, are objects that are to be applied: Read reads also what they call.
	Applied *inventory.Objects
	// OnStartupErrors, if any, gets the errors that delay the first Snapshot,
	// each time that they change.
	OnStartupErrors func([]inventory.Error)

	test timing
}

// Watch publishes a Snapshot of the cluster, with its Matcher, as soon as everything
// that may be read was read, then at each change: at once, but at most once in
// Options.Debounce.
//
// What cannot be read is an Error of the Snapshot; what was known before is
// kept, and Snapshot.Current does not advance. Watch returns once ctx is done and all
// watches ended, with the error of ctx. It calls publish from one goroutine.
func Watch(ctx context.Context, clients Clients, options Options, publish func(*admission.Matcher)) error {
	w := newWatcher(clients, options, publish)
	clients.connect(ctx)
	for _, r := range clients.watchedResources() {
		o := newObjectWatch(r, w.schedule.timing, w.reads, w.onEvent)
		w.running.Go(func() { o.run(ctx, w.schedule.backoff) })
		w.watches = append(w.watches, o)
	}
	w.loop(ctx)
	w.running.Wait()
	return ctx.Err()
}

type watcher struct {
	clients Clients
	options Options
	publish func(*admission.Matcher)
	// wakeup makes the loop look for work; it has room for one signal.
	wakeup  chan struct{}
	running sync.WaitGroup

	reads *reads

	// The loop alone uses these.
	watches       []*objectWatch
	startupErrors []inventory.Error
	builder       inventory.Builder
	matcher       *admission.Matcher

	mu         sync.Mutex
	schedule   schedule
	serverInfo serverInfo
	errors     map[inventory.Resource]int64
	// regressions counts how often the resource version went back, and
	// relistPending is set until everything is listed again because of it.
	regressions   int64
	relistPending bool
}

func newWatcher(clients Clients, options Options, publish func(*admission.Matcher)) *watcher {
	now := time.Now()
	w := &watcher{
		clients:  clients,
		options:  options,
		publish:  publish,
		wakeup:   make(chan struct{}, 1),
		reads:    &reads{},
		schedule: schedule{timing: options.timing(), started: now, revisionsCompared: now},
		errors:   map[inventory.Resource]int64{},
	}
	for _, r := range clients.watchedResources() {
		w.errors[r.name()] = 0
	}
	return w
}

func (w *watcher) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wakeup:
		case <-timer.C:
		}
		w.relistIfRegressed()
		w.fetchIfDue(ctx)
		w.publishIfDue()
		timer.Reset(time.Until(w.times().next(time.Now(), w.status())))
	}
}

func (w *watcher) onEvent(o *objectWatch, e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e == callFailed {
		w.errors[o.name()]++
		return
	}
	now := time.Now()
	w.schedule.noteChange(now)
	if e == objectsChanged && o.serves {
		w.schedule.noteServedChange(now)
	}
	w.schedule.recovered = w.schedule.recovered || e == recovered
	if e == regressed && !w.relistPending {
		w.regressions++
		w.relistPending = true
	}
	w.signal()
}

func (w *watcher) signal() {
	select {
	case w.wakeup <- struct{}{}:
	default:
	}
}

func (w *watcher) relistIfRegressed() {
	w.mu.Lock()
	due := w.relistPending
	w.relistPending = false
	w.mu.Unlock()
	if !due {
		return
	}
	for _, o := range w.watches {
		o.relist()
	}
}

func (w *watcher) fetchIfDue(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.schedule.fetching || w.schedule.nextFetch().After(now) {
		return
	}
	before := w.serverInfo
	if w.schedule.recovered || now.Sub(before.gatesRead) >= w.schedule.gatesInterval {
		before.gatesRead = time.Time{}
	}
	var compared []*objectWatch
	if w.schedule.beginComparison(now) {
		compared = slices.Clone(w.watches)
	}
	w.schedule.beginFetch(now)
	w.running.Go(func() {
		w.setServerInfo(w.clients.fetchServerInfo(ctx, before))
		w.clients.checkRevisions(ctx, compared, w.schedule.progressWait)
	})
}

func (w *watcher) setServerInfo(info serverInfo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !info.same(w.serverInfo) {
		w.schedule.noteChange(time.Now())
	}
	w.serverInfo, w.schedule.fetching = info, false
	w.signal()
}

// publishIfDue publishes a Snapshot where one is due. One that refers to something that
// did not count before is dropped: the next one shows that.
func (w *watcher) publishIfDue() {
	times := w.times()
	if due := times.nextPublish(w.status()); due.IsZero() || due.After(time.Now()) {
		w.reportStartupErrors()
		return
	}
	// The Snapshot may lack changes from here on.
	w.reschedule(func(s *schedule) { s.changed = time.Time{} })
	now := time.Now()
	w.matcher = w.matcher.Next(w.builder.Snapshot(w.objects(now), now))
	if w.readMore() {
		w.reschedule(func(s *schedule) { s.changed = cmp.Or(times.changed, s.changed) })
		w.signal()
		return
	}
	w.publish(w.matcher)
	w.reschedule(func(s *schedule) { s.spend(now, time.Now()) })
}

// readMore reports whether the Snapshot may lack what its webhooks read and those before
// did not.
func (w *watcher) readMore() bool {
	if !w.reads.follow(w.matcher.Snapshot) {
		return false
	}
	for _, o := range w.watches {
		if o.counts != nil {
			o.readAnew()
		}
	}
	return true
}

func (w *watcher) times() schedule {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.schedule
}

func (w *watcher) reschedule(change func(*schedule)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.schedule)
}

// reportStartupErrors reports what delays the first Snapshot: calls that fail
// and may succeed later. What is forbidden is an Error of the Snapshot.
func (w *watcher) reportStartupErrors() {
	if !w.times().published.IsZero() || w.options.OnStartupErrors == nil {
		return
	}
	w.mu.Lock()
	failures := slices.Clone(w.serverInfo.failures)
	w.mu.Unlock()
	for _, o := range w.watches {
		if failure := o.contents(time.Now()).failure; failure != nil {
			failures = append(failures, *failure)
		}
	}
	errs := errorsByCause(slices.DeleteFunc(failures, failure.refused))
	if !slices.Equal(errs, w.startupErrors) {
		w.startupErrors = errs
		w.options.OnStartupErrors(errs)
	}
}

func (w *watcher) status() watchStatus {
	w.mu.Lock()
	first := w.schedule.published.IsZero()
	out := watchStatus{empty: true, pending: w.serverInfo.attempted.IsZero() || first && w.serverInfo.unsettled()}
	w.mu.Unlock()
	for _, o := range w.watches {
		p := o.progress()
		out.pending = out.pending || p == unanswered || p == failing && first
		out.empty = out.empty && p < refused
	}
	return out
}

func (w *watcher) objects(now time.Time) inventory.Objects {
	all := lists.Map(w.watches, func(o *objectWatch) contents { return o.contents(now) })
	w.mu.Lock()
	info, errors, regressions := w.serverInfo, maps.Clone(w.errors), w.regressions
	w.mu.Unlock()
	o := assemble(w.options, all, info, w.reads)
	o.WatchErrors, o.Regressions, o.Current = errors, regressions, now
	o.Outdated = map[inventory.Resource]time.Time{}
	for _, c := range all {
		o.Current = earlier(o.Current, c.current)
		if name := c.resource.name(); c.failure != nil && c.current.Before(now) {
			o.Outdated[name] = earlier(cmp.Or(o.Outdated[name], now), c.current)
		}
	}
	return o
}
