// Package cluster watches a cluster cheaply and publishes an
// inventory.Snapshot at each change, or reads it once.
package cluster

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Options are how Watch and Read behave. The zero Options are the defaults.
type Options struct {
	// Settle is the least time between two Snapshots while changes keep coming;
	// 100 ms if zero.
	Settle time.Duration
	// Repeat is after what time an unchanged Snapshot is published again; 60 s
	// if zero.
	Repeat time.Duration
	// Routing is where the API server sends calls to Services, for those who
	// know; RoutingUnknown takes what the cluster tells.
	Routing inventory.Routing
	// Waiting, if any, is told what holds back the first Snapshot, each time
	// that changes.
	Waiting func([]inventory.Error)

	test tempo
}

// Watch publishes a Snapshot of the cluster as soon as everything that may be
// read was read, then at each change: at once, but at most once in
// Options.Settle. It reads nothing of the whole cluster but what registers
// webhooks and the namespaces, and of the rest only what some webhook names.
//
// What cannot be read is an Error of the Snapshot; what was known before is
// kept, and Snapshot.Current stands still. Watch returns once ctx is done and all
// watches ended, with the error of ctx. It calls publish from one goroutine.
func Watch(ctx context.Context, clients Clients, options Options, publish func(*inventory.Snapshot)) error {
	w := newWatcher(clients, options, publish)
	w.start(ctx)
	w.loop(ctx)
	w.running.Wait()
	return ctx.Err()
}

// watcher is one run of Watch.
type watcher struct {
	clients Clients
	options Options
	tempo   tempo
	publish func(*inventory.Snapshot)
	started time.Time
	// wake has room for one: it says that something was heard.
	wake    chan struct{}
	running sync.WaitGroup

	// What follows belongs to the loop.
	feeds     []*feed
	backends  map[place]backend
	published time.Time
	taken     inventory.Succession
	waiting   []inventory.Error

	mu    sync.Mutex
	heard heard
	facts facts
	// told says that the facts were read at least once.
	told bool
	// asked is when the facts were last asked for, asking that they are now.
	asked  time.Time
	asking bool
	// compared is when the resource versions were compared last.
	compared time.Time
	errors   map[string]int64
	// regressions counts how often the resource version went back, and relist
	// says that everything is to be listed anew because of it.
	regressions int64
	relist      bool
}

// heard is what the feeds and the facts told since the loop last listened.
type heard struct {
	// changed is when something changed first.
	changed time.Time
	// served is when what the API server serves changed last.
	served time.Time
	// again is when to ask once more what it serves; zero is never.
	again time.Time
	// returned says that a watch recovered: the API server may be another.
	returned bool
}

// backend is the watches of one place.
type backend struct {
	feeds []*feed
	stop  context.CancelFunc
}

func newWatcher(clients Clients, options Options, publish func(*inventory.Snapshot)) *watcher {
	w := &watcher{
		clients:  clients,
		options:  options,
		tempo:    options.tempo(),
		publish:  publish,
		started:  time.Now(),
		compared: time.Now(),
		wake:     make(chan struct{}, 1),
		backends: map[place]backend{},
		errors:   map[string]int64{},
	}
	for _, s := range slices.Concat(clients.clusterSources(), clients.placed()) {
		w.errors[s.GroupResource.String()] = 0
	}
	return w
}

func (w *watcher) start(ctx context.Context) {
	for _, s := range w.clients.clusterSources() {
		w.feeds = append(w.feeds, w.startFeed(ctx, s))
	}
}

func (w *watcher) startFeed(ctx context.Context, s source) *feed {
	f := newFeed(s, w.tempo.relist, w.hear)
	if s.possible() {
		w.running.Go(func() { f.run(ctx, w.tempo.backoff) })
	} else {
		f.state = state{synced: true, open: true, complete: true}
	}
	return f
}

func (w *watcher) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-timer.C:
		}
		w.relistAll()
		w.ask(ctx)
		w.announce(ctx)
		timer.Reset(time.Until(w.next()))
	}
}

// next returns when there is something to do though nothing is heard.
func (w *watcher) next() time.Time {
	due := w.tempo.due(w.moment())
	w.mu.Lock()
	defer w.mu.Unlock()
	ask := w.tempo.ask(w.asked, w.heard)
	switch {
	case w.asking && due.IsZero():
		return time.Now().Add(w.tempo.repeat)
	case w.asking:
		return due
	case due.IsZero():
		return ask
	}
	return sooner(due, ask)
}

// hear is told by the feeds what happened.
func (w *watcher) hear(f *feed, e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e == callFailed {
		w.errors[f.GroupResource.String()]++
		return
	}
	now := time.Now()
	if w.heard.changed.IsZero() {
		w.heard.changed = now
	}
	if e == objectsChanged && f.serves {
		w.heard.served = now
	}
	w.heard.returned = w.heard.returned || e == recovered
	if e == regressed && !w.relist {
		w.regressions++
		w.relist = true
	}
	w.rouse()
}

func (w *watcher) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// follow watches what the webhooks of the Snapshot call and hold up, and no
// longer what they did. It reports whether these are others.
func (w *watcher) follow(ctx context.Context, s *inventory.Snapshot) bool {
	wanted, others := wanted(s), false
	for p, b := range w.backends {
		if !wanted[p] {
			b.stop()
			delete(w.backends, p)
			others = true
		}
	}
	for p := range wanted {
		if _, ok := w.backends[p]; !ok {
			w.backends[p] = w.startBackend(ctx, p)
			others = true
		}
	}
	return others
}

func (w *watcher) startBackend(ctx context.Context, p place) backend {
	ctx, stop := context.WithCancel(ctx)
	b := backend{stop: stop}
	for _, s := range w.clients.sources(p) {
		b.feeds = append(b.feeds, w.startFeed(ctx, s))
	}
	return b
}

// ask reads the facts where they are due, without waiting for them.
func (w *watcher) ask(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.asking || w.tempo.ask(w.asked, w.heard).After(now) {
		return
	}
	known := w.facts
	returned := w.heard.returned
	if returned || now.Sub(known.gatesRead) >= w.tempo.gates {
		known.gatesRead = time.Time{}
	}
	w.asking, w.asked = true, now
	w.heard = w.tempo.asked(w.heard, now)
	var seen map[*feed]string
	if returned || now.Sub(w.compared) >= w.tempo.repeat {
		seen, w.compared = revisions(w.feeds), now
	}
	w.running.Go(func() {
		w.learn(w.clients.readFacts(ctx, known))
		checkRevisions(ctx, seen)
	})
}

// relistAll lists everything anew where the resource version went back.
func (w *watcher) relistAll() {
	w.mu.Lock()
	due := w.relist
	w.relist = false
	w.mu.Unlock()
	if !due {
		return
	}
	for _, f := range w.all() {
		f.relist()
	}
}

func (w *watcher) learn(f facts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.heard.changed.IsZero() && !f.same(w.facts) {
		w.heard.changed = time.Now()
	}
	if reflect.DeepEqual(f.served, w.facts.served) {
		f.served = w.facts.served // the very same, see inventory.Succession
	}
	w.facts, w.asking, w.told = f, false, true
	w.rouse()
}

// announce publishes a Snapshot where one is due. Where it names a Service
// that nobody watched, it is held back until that Service was read.
func (w *watcher) announce(ctx context.Context) {
	m := w.moment()
	if !w.tempo.passed(m) {
		w.wait()
		return
	}
	// What is heard from here on may be missing in the Snapshot.
	w.hearAnew(time.Time{})
	s := w.snapshot()
	if w.follow(ctx, s) {
		m.pending = w.moment().pending
		if !w.tempo.passed(m) {
			w.hearAnew(m.changed)
			return
		}
		s = w.snapshot()
	}
	w.published = time.Now()
	w.publish(s)
}

func (w *watcher) hearAnew(changed time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard.changed = changed
}

// wait tells what holds back the first Snapshot: what fails and may yet
// recover. What is refused will be told by the Snapshot.
func (w *watcher) wait() {
	if !w.published.IsZero() || w.options.Waiting == nil {
		return
	}
	w.mu.Lock()
	failures := slices.Clone(w.facts.failures)
	w.mu.Unlock()
	for _, r := range results(w.all()) {
		if r.failure != nil {
			failures = append(failures, *r.failure)
		}
	}
	errs := explain(slices.DeleteFunc(failures, failure.refused))
	if !slices.Equal(errs, w.waiting) {
		w.waiting = errs
		w.options.Waiting(errs)
	}
}

func (w *watcher) moment() moment {
	w.mu.Lock()
	m := moment{started: w.started, published: w.published, changed: w.heard.changed, blind: true}
	m.pending = !w.told || w.published.IsZero() && w.facts.unsettled()
	w.mu.Unlock()
	for _, f := range w.all() {
		s := f.known()
		awaited := !s.answered() || w.published.IsZero() && !s.settled()
		m.pending = m.pending || awaited
		m.blind = m.blind && !s.synced && (s.failure == nil || !s.failure.refused())
	}
	return m
}

// all returns the feeds of the cluster and of all backends.
func (w *watcher) all() []*feed {
	out := slices.Clone(w.feeds)
	for _, p := range slices.SortedFunc(maps.Keys(w.backends), place.compare) {
		out = append(out, w.backends[p].feeds...)
	}
	return out
}

func results(feeds []*feed) []result {
	out := make([]result, len(feeds))
	for i, f := range feeds {
		out[i] = f.result()
	}
	return out
}

func (w *watcher) objects() inventory.Objects {
	w.mu.Lock()
	known, errors, regressions := w.facts, maps.Clone(w.errors), w.regressions
	w.mu.Unlock()
	o := w.options.assemble(results(w.all()), known)
	o.WatchErrors, o.Regressions = errors, regressions
	return o
}

func (w *watcher) snapshot() *inventory.Snapshot {
	// The state of each watch is taken before its objects: they may be newer
	// than Current tells, never older.
	taken := time.Now()
	current := taken
	for _, f := range w.all() {
		s := f.known()
		current = sooner(current, s.currentAt(taken))
	}
	o := w.objects()
	o.Current = current
	return w.taken.Snapshot(o, taken)
}
