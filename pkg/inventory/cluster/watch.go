// Package cluster watches the part of a cluster that concerns webhooks and
// publishes an inventory.Snapshot at each change, or reads that part once.
//
// What registers webhooks is read in the whole cluster. What is behind them is read in
// scopes: all objects of a kind in the cluster, in a namespace, or of some Services. The
// life of a scope:
//
//	wanted    a webhook of the last Snapshot refers to something in it
//	  |
//	unanswered, failing   listed, then watched; a Snapshot waits a second for it
//	  |           \
//	synced       split    it has too many objects, or only parts may be read:
//	  |                   parts of it are wanted from now on
//	retired   no webhook needs it; its objects stay until what replaces it was read
//	  |
//	stopped
package cluster

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Options configure Watch and Read. The zero Options are the defaults.
type Options struct {
	// Debounce is the minimum time between two Snapshots while changes keep
	// coming; 100 ms if zero.
	Debounce time.Duration
	// Resync is after what time an unchanged Snapshot is published again; 60 s
	// if zero.
	Resync time.Duration
	// Routing is where the API server sends calls to Services; RoutingUnknown
	// takes what the cluster shows.
	Routing inventory.Routing
	// NamespaceLabels, if any, returns the labels that the reader of the Snapshots reads
	// of namespaces, beside those that webhooks and policies select by. It is asked with
	// each Snapshot.
	NamespaceLabels func() []string
	// OnStartupErrors, if any, gets the errors that delay the first Snapshot,
	// each time that they change.
	OnStartupErrors func([]inventory.Error)

	// test are durations that only tests change.
	test timing
}

// Watch publishes a Snapshot of the cluster, with its Matcher, as soon as everything
// that may be read was read, then at each change: at once, but at most once in
// Options.Debounce. Of the whole cluster it reads what registers webhooks and the
// namespaces; Services, EndpointSlices and Pods only where there are few, else those
// that some webhook refers to.
//
// What cannot be read is an Error of the Snapshot; what was known before is
// kept, and Snapshot.Current does not advance. Watch returns once ctx is done and all
// watches ended, with the error of ctx. It calls publish from one goroutine.
func Watch(ctx context.Context, clients Clients, options Options, publish func(*admission.Matcher)) error {
	w := newWatcher(clients, options, publish)
	clients.connect(ctx)
	for _, r := range clients.clusterResources() {
		w.clusterWide = append(w.clusterWide, w.startWatch(ctx, r))
	}
	for _, r := range clients.scopedResources() { // with the others, not after them
		if all := (watchScope{GroupResource: r.GroupResource}); r.few > 0 {
			w.scoped[all] = w.startScope(ctx, all, nil)
		}
	}
	w.loop(ctx)
	w.running.Wait()
	return ctx.Err()
}

// watcher is one run of Watch.
type watcher struct {
	clients Clients
	options Options
	publish func(*admission.Matcher)
	// wakeup makes the loop look for work; it has room for one signal.
	wakeup  chan struct{}
	running sync.WaitGroup

	// The loop alone uses these.
	clusterWide   []*objectWatch
	scoped        map[watchScope]*scopedWatch
	startupErrors []inventory.Error
	builder       inventory.Builder
	matcher       *admission.Matcher
	// wanted are the scopes that the last Snapshot needed; nil if they have to be
	// found anew.
	wanted   map[watchScope]keySet
	wantedBy *inventory.Snapshot
	// namespaces is what of namespaces the webhooks read.
	namespaces *namespaceReads
	// tooBroad are the scopes that are watched in parts: they had too many objects
	// once, or reading all of them was forbidden. That lasts until the process ends,
	// so that no number of objects makes the watches change again and again.
	tooBroad map[watchScope]bool

	mu         sync.Mutex
	schedule   schedule
	serverInfo serverInfo
	errors     map[inventory.Resource]int64
	// regressions counts how often the resource version went back, and
	// relistPending is set until everything is listed again because of it.
	regressions   int64
	relistPending bool
}

// scopedWatch is the watch of one scope.
type scopedWatch struct {
	*objectWatch
	stop context.CancelFunc
	// retired is set once the scope is no longer wanted. Its watch goes on until
	// those that replace it were read: what is known stays known.
	retired bool
}

func newWatcher(clients Clients, options Options, publish func(*admission.Matcher)) *watcher {
	now := time.Now()
	w := &watcher{
		clients:  clients,
		options:  options,
		publish:  publish,
		wakeup:   make(chan struct{}, 1),
		scoped:   map[watchScope]*scopedWatch{},
		schedule: schedule{timing: options.timing(), started: now, revisionsCompared: now},
		errors:   map[inventory.Resource]int64{},
		tooBroad: map[watchScope]bool{},

		namespaces: &namespaceReads{},
	}
	for _, r := range clients.clusterResources() {
		w.errors[r.name()] = 0
	}
	for _, r := range clients.scopedResources() {
		w.errors[r.name()] = 0
	}
	return w
}

func (w *watcher) startWatch(ctx context.Context, r resource) *objectWatch {
	t := w.schedule.timing
	if r.GroupResource == corev1.Resource("namespaces") {
		r.matters = w.namespaces.matters
	}
	o := newObjectWatch(r, t, w.onEvent)
	if r.scope.possible() {
		w.running.Go(func() { o.run(ctx, t.backoff) })
	} else {
		o.setEmpty()
	}
	return o
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
		w.splitNamespaces(ctx)
		w.fetchIfDue(ctx)
		w.publishIfDue(ctx)
		timer.Reset(time.Until(w.times().next(time.Now(), w.status())))
	}
}

// onEvent takes note of an event of a watch.
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

// relistIfRegressed lists everything again where the resource version went back.
func (w *watcher) relistIfRegressed() {
	w.mu.Lock()
	due := w.relistPending
	w.relistPending = false
	w.mu.Unlock()
	if !due {
		return
	}
	for _, o := range w.watches() {
		o.relist()
	}
}

// fetchIfDue fetches the serverInfo in the background.
func (w *watcher) fetchIfDue(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.schedule.fetching || w.schedule.nextFetch().After(now) {
		return
	}
	before := w.serverInfo
	if w.schedule.recovered || now.Sub(before.gatesRead) >= w.schedule.gatesInterval {
		before.gatesRead, before.paramsRefused = time.Time{}, nil
	}
	snapshot := &inventory.Snapshot{} // before the first, no policy is known
	if w.matcher != nil {
		snapshot = w.matcher.Snapshot
	}
	var compared []*objectWatch
	if w.schedule.beginComparison(now) {
		compared = w.watches()
	}
	w.schedule.beginFetch(now)
	w.running.Go(func() {
		info := w.clients.fetchServerInfo(ctx, before)
		r := reader{progress: func(string, int) {}, counts: map[string]int{}}
		w.setServerInfo(r.readParams(ctx, w.clients, snapshot, info))
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

// publishIfDue publishes a Snapshot where one is due. One that refers to
// something that is not yet watched is dropped: the next one shows that, or comes
// after newServiceWait.
func (w *watcher) publishIfDue(ctx context.Context) {
	times := w.times()
	if !times.mayPublish(time.Now(), w.status()) {
		w.reportStartupErrors()
		return
	}
	// The Snapshot may lack changes from here on.
	w.reschedule(func(s *schedule) { s.changed = time.Time{} })
	taken := time.Now()
	w.matcher = w.matcher.Next(w.builder.Snapshot(w.objects(taken), taken))
	more := w.readMoreOfNamespaces()
	if w.watchScopes(ctx, w.wantedScopes()) || more {
		w.reschedule(func(s *schedule) { s.changed = cmp.Or(times.changed, s.changed) })
		w.signal()
		return
	}
	w.publish(w.matcher)
	w.reschedule(func(s *schedule) { s.spend(taken, time.Now()) })
}

// readMoreOfNamespaces reports whether the Snapshot may lack changes of namespaces that
// its webhooks or its reader read and those before did not.
func (w *watcher) readMoreOfNamespaces() bool {
	var byReader []string
	if w.options.NamespaceLabels != nil {
		byReader = w.options.NamespaceLabels()
	}
	if !w.namespaces.follow(w.matcher.Snapshot, byReader) {
		return false
	}
	for _, o := range w.clusterWide {
		if o.matters != nil {
			o.readAnew()
		}
	}
	return true
}

// wantedScopes are those that the webhooks need: the last ones, where nothing changed
// that they depend on. Most changes are of something else, and all webhooks are many.
func (w *watcher) wantedScopes() map[watchScope]keySet {
	w.noteBroadScopes()
	s := w.matcher.Snapshot
	if w.wanted == nil || wantsOthers(s, w.wantedBy) {
		w.wanted = wantedScopes(w.matcher, w.tooBroad)
	}
	w.wantedBy = s
	return w.wanted
}

func (w *watcher) noteBroadScopes() {
	for scope, watch := range w.scoped {
		if whole := scope.whole(); !w.tooBroad[whole] && watch.tooBroad() {
			w.tooBroad[whole], w.wanted = true, nil
		}
	}
}

// watchScopes starts and retires watches so that these scopes are watched because of
// these Services. It reports whether a Snapshot taken before lacks any of that.
// Retired watches leave with a later Snapshot.
func (w *watcher) watchScopes(ctx context.Context, wanted map[watchScope]keySet) (more bool) {
	for scope, watch := range w.scoped {
		_, isWanted := wanted[scope]
		if !isWanted && !watch.retired {
			w.reschedule(func(s *schedule) { s.noteChange(time.Now()) })
		}
		watch.retired = !isWanted
	}
	for scope, keys := range wanted {
		watch, ok := w.scoped[scope]
		if !ok {
			w.scoped[scope] = w.startScope(ctx, scope, keys)
			more = true
			continue
		}
		more = watch.want(keys) || more
	}
	return more
}

// splitNamespaces watches Services by their names where their namespace turned out to
// have too many, before a Snapshot waits for them.
func (w *watcher) splitNamespaces(ctx context.Context) {
	w.noteBroadScopes()
	for scope, watch := range maps.Clone(w.scoped) {
		if scope.GroupResource != serviceResource || scope.extent != ofNamespace || watch.retired || !w.tooBroad[scope.whole()] || len(scope.names()) >= manyServices {
			continue
		}
		watch.retired = true
		for _, name := range scope.names() {
			one := scope.of(name)
			if w.scoped[one] == nil {
				w.scoped[one] = w.startScope(ctx, one, one.keys())
			}
			w.scoped[one].retired = false
		}
	}
}

func (w *watcher) startScope(ctx context.Context, scope watchScope, keys keySet) *scopedWatch {
	ctx, stop := context.WithCancel(ctx)
	out := &scopedWatch{objectWatch: w.startWatch(ctx, w.clients.resourceIn(scope)), stop: stop}
	out.want(keys)
	return out
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
	for _, o := range w.watches() {
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
	for _, o := range w.watches() {
		if watch := w.scoped[o.scope]; watch != nil && watch.retired {
			continue
		}
		p := o.progress()
		out.pending = out.pending || p == unanswered || p == failing && first
		out.empty = out.empty && p < refused
	}
	return out
}

// watches returns those of the whole cluster and those of all scopes, in a
// stable order.
func (w *watcher) watches() []*objectWatch {
	out := slices.Clone(w.clusterWide)
	for _, scope := range slices.SortedFunc(maps.Keys(w.scoped), watchScope.compare) {
		out = append(out, w.scoped[scope].objectWatch)
	}
	return out
}

// objects returns what is known of the cluster at the time. It ends retired watches
// that are replaced, and leaves them out.
func (w *watcher) objects(now time.Time) inventory.Objects {
	var wanted, retired []contents
	for _, o := range w.watches() {
		c := o.contents(now)
		if watch := w.scoped[o.scope]; watch != nil && watch.retired {
			retired = append(retired, c)
		} else {
			wanted = append(wanted, c)
		}
	}
	all := slices.Clip(wanted)
	for _, old := range retired {
		if replaced, keys := old.replacedBy(wanted); !replaced {
			all = append(all, old.without(keys))
		} else if watch, ok := w.scoped[old.scope]; ok {
			watch.stop()
			delete(w.scoped, old.scope)
		}
	}
	w.mu.Lock()
	info, errors, regressions := w.serverInfo, maps.Clone(w.errors), w.regressions
	w.mu.Unlock()
	o := assemble(w.options, all, info)
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

// replacedBy reports whether all that takes the place of the contents was read, and
// which of the objects were.
func (c contents) replacedBy(others []contents) (replaced bool, keys map[inventory.Key]bool) {
	replaced, keys = true, map[inventory.Key]bool{}
	for _, o := range others {
		if o.GroupResource == c.GroupResource && o.scope.replaces(c.scope) {
			replaced = replaced && o.known
			for _, obj := range o.objects {
				keys[keyOf(obj)] = true
			}
		}
	}
	return replaced, keys
}

// without leaves out objects that other contents have as well.
func (c contents) without(keys map[inventory.Key]bool) contents {
	c.objects = slices.DeleteFunc(slices.Clone(c.objects), func(obj any) bool { return keys[keyOf(obj)] })
	return c
}
