package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// objectWatch keeps the objects of one resource current. It is the store of a
// client-go Reflector and makes its calls: the Reflector itself reports few of
// its failures.
type objectWatch struct {
	resource
	// reads says which objects and which changes a Snapshot shows.
	reads *reads
	// onEvent is called after each event. It must not block.
	onEvent func(*objectWatch, event)
	// relistAfter is the greatest age of a list from which a watch resumes, and
	// openTimeout how long the API server may take until it begins to stream.
	relistAfter, openTimeout time.Duration

	mu      sync.Mutex
	objects map[inventory.Key]any
	// sorted holds the objects that count by namespace and name; nil after a change.
	sorted []any
	state  state
	stream *stream
	// listedAt is the time of the last complete list, zero before the first.
	listedAt time.Time
	// asOf is the last time at which the objects were known to be current, if
	// they are not now. It begins with the time at which they were first wanted.
	asOf time.Time
	// confirmed is the last time at which a list showed that nothing is missing.
	confirmed time.Time
	// failure is why the last call failed; nil once the objects are current
	// again.
	failure *failure
	// revision is the newest resource version that was seen.
	revision string
}

type event int

const (
	objectsChanged event = iota
	progressChanged
	callFailed
	recovered
	// regressed is an API server whose resource version went back.
	regressed
)

type progress int

const (
	unanswered progress = iota
	// failing is a watch that never read a list and may do so later.
	failing
	absent
	refused
	synced
)

type contents struct {
	resource
	// objects are sorted by namespace and name.
	objects []any
	// complete is set if the objects are all that count, or were at the time of current.
	complete bool
	absent   bool
	// current is the last time at which the objects were known to be current.
	current time.Time
	failure *failure
}

func newObjectWatch(r resource, t timing, reads *reads, onEvent func(*objectWatch, event)) *objectWatch {
	now := time.Now()
	return &objectWatch{
		resource: r, relistAfter: t.relistAge, openTimeout: t.openTimeout, reads: reads, onEvent: onEvent,
		objects: map[inventory.Key]any{}, asOf: now, confirmed: now,
	}
}

func (o *objectWatch) run(ctx context.Context, backoff wait.Backoff) {
	// What client-go would log is reported as data.
	silent := klog.Logger{}
	reflector := cache.NewReflectorWithOptions(&pages{cache.ListWatch{
		ListWithContextFunc:  o.listForReflector,
		WatchFuncWithContext: o.watchForReflector,
	}}, o.example, o, cache.ReflectorOptions{
		Name:    o.GroupResource.String(),
		Logger:  &silent,
		Backoff: &backoff,
	})
	reflector.RunWithContext(klog.NewContext(ctx, silent))
}

// pages lists in pages. A stream of the initial list costs the API server twice the CPU time.
type pages struct{ cache.ListWatch }

// IsWatchListSemanticsUnSupported keeps the Reflector from asking for such a stream.
func (*pages) IsWatchListSemanticsUnSupported() bool { return true }

// listForReflector asks for the newest state whatever the Reflector asks for: the API
// server pages nothing else.
func (o *objectWatch) listForReflector(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	o.update(func() { o.move(listBegins, time.Now()) })
	list, err := o.listPages(ctx, func(int) {})
	if err != nil {
		o.fail(ctx, "list", err)
	}
	return list, err
}

// watchForReflector opens a stream that continues the list.
func (o *objectWatch) watchForReflector(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if o.mustRelist() {
		return nil, errOutdated
	}
	w, cancel, err := o.open(ctx, options)
	if err != nil {
		o.fail(ctx, "watch", err)
		return nil, err
	}
	s := &stream{Interface: w, onStop: sync.OnceFunc(func() {
		cancel()
		o.update(func() { o.closed(time.Now()) })
	})}
	isOutdated := false
	o.update(func() {
		o.opened(s)
		isOutdated = o.state == outdated // since the call began
	})
	if isOutdated {
		s.Stop()
		return nil, errOutdated
	}
	return s, nil
}

// open opens a stream, which lasts until it is canceled. The call is bounded: nothing else
// says that an API server does not answer it.
func (o *objectWatch) open(ctx context.Context,
	options metav1.ListOptions,
) (watch.Interface, context.CancelFunc, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(o.openTimeout, cancel)
	w, err := o.watch(ctx, options)
	_, streams := w.(*watch.StreamWatcher)
	switch inTime := late.Stop(); {
	case !inTime:
		err = errNoAnswer
	case err == nil && !streams:
		// client-go hides that the connection broke.
		err = errClosed
	}
	if err != nil {
		cancel()
		stop(w)
	}
	return w, cancel, err
}

func stop(w watch.Interface) {
	if w != nil {
		w.Stop()
	}
}

// errOutdated makes the Reflector list again.
var errOutdated = apierrors.NewResourceExpired("the last list is too old to resume from")

var (
	errClosed   = errors.New("the API server closed the connection")
	errNoAnswer = errors.New("the API server did not answer, as one that has lost its connection to etcd: check /readyz of each API server")
)

// stream calls onStop when the Reflector is done with it.
type stream struct {
	watch.Interface
	onStop func()
}

// Stop ends the stream. The Reflector calls it after any end.
func (s *stream) Stop() {
	s.onStop()
	s.Interface.Stop()
}

// relist makes the Reflector list again instead of resuming from what it has.
func (o *objectWatch) relist() {
	o.mu.Lock()
	o.move(mayLackChanges, time.Now())
	o.revision = ""
	open := o.stream
	o.mu.Unlock()
	if open != nil {
		open.Stop()
	}
}

// mustRelist reports whether the objects must be listed again: they may lack changes, or
// the list that a stream continued is too old.
func (o *objectWatch) mustRelist() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.state == outdated || o.state == interrupted && time.Since(o.listedAt) > o.relistAfter
}

func (o *objectWatch) fail(ctx context.Context, verb string, err error) {
	if ctx.Err() != nil || expired(err) {
		return
	}
	f := o.resource.failure(verb, err)
	// It is counted first: no Snapshot shows the failure without it. That an older API
	// server lacks the kind is an answer.
	if o.progress() == synced || !f.notServed() {
		o.onEvent(o, callFailed)
	}
	o.update(func() { o.failed(f) })
}

// update changes what is known of the watch, and reports what a Snapshot would
// show of that.
func (o *objectWatch) update(change func()) {
	o.mu.Lock()
	failure, progress := o.reported(), o.progressLocked()
	change()
	hasRecovered := failure != nil && o.reported() == nil
	changed := progress != o.progressLocked() || !failure.same(o.reported())
	o.mu.Unlock()
	switch {
	case hasRecovered:
		o.onEvent(o, recovered)
	case changed:
		o.onEvent(o, progressChanged)
	}
}

// The following are the changes for update, which holds the lock.

func (o *objectWatch) opened(s *stream) {
	o.stream = s
	o.move(streamOpens, time.Now())
}

func (o *objectWatch) listed(now time.Time, revision string) {
	if o.listedAt.IsZero() {
		o.failure = nil // it was of the list
	}
	o.listedAt, o.asOf, o.confirmed, o.revision = now, now, now, revision
	o.move(listEnds, now)
}

func (o *objectWatch) closed(now time.Time) {
	o.move(streamEnds, now)
	o.stream = nil
}

// failed records that a call failed. The cause may be a restore of etcd, unless the API
// server is only busy: that does not need the load of another list.
func (o *objectWatch) failed(f failure) {
	o.failure = &f
	if !o.isAbsent() && !apierrors.IsTooManyRequests(f.err) {
		o.move(mayLackChanges, time.Now())
	}
}

// isAbsent reports whether the API server does not serve the resource, which is
// an answer. If it did before, that is a failure: what is known is kept.
func (o *objectWatch) isAbsent() bool {
	return o.listedAt.IsZero() && o.failure != nil && o.failure.notServed()
}

func (o *objectWatch) reported() *failure {
	if o.isAbsent() {
		return nil
	}
	return o.failure
}

func (o *objectWatch) progress() progress {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.progressLocked()
}

func (o *objectWatch) progressLocked() progress {
	switch {
	case !o.listedAt.IsZero():
		return synced
	case o.failure == nil:
		return unanswered
	case o.failure.notServed():
		return absent
	case o.failure.refused():
		return refused
	}
	return failing
}

// readAnew has the next contents show every change, those as well that did not matter.
func (o *objectWatch) readAnew() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sorted = nil
}

func (o *objectWatch) contents(now time.Time) contents {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sorted == nil {
		o.sorted = make([]any, 0, len(o.objects))
		for _, object := range o.objects {
			if o.reads.counts(o.resource, object) {
				o.sorted = append(o.sorted, unpacked(object))
			}
		}
		slices.SortFunc(o.sorted, func(a, b any) int { return keyOf(a).Compare(keyOf(b)) })
	}
	c := contents{
		resource: o.resource, objects: o.sorted, complete: !o.listedAt.IsZero(), absent: o.isAbsent(), current: o.asOf,
	}
	if o.state == current || c.absent {
		c.current = now
	}
	if f := o.reported(); f != nil {
		f := *f
		if c.complete {
			f.asOf = o.asOf
		}
		c.failure = &f
	}
	return c
}

func (o *objectWatch) Add(obj any) error { return o.Update(obj) }

// Update is called by the Reflector for a changed object. One that is the same
// once it is stripped is no change that a Snapshot shows.
func (o *objectWatch) Update(obj any) error {
	object := o.keptObject(obj)
	o.set(keyOf(object), object)
	return nil
}

func (o *objectWatch) Delete(obj any) error {
	o.set(keyOf(obj), nil)
	return nil
}

// set replaces an object; nil deletes it.
func (o *objectWatch) set(key inventory.Key, object any) {
	o.mu.Lock()
	before := o.objects[key]
	shows := !apiequality.Semantic.DeepEqual(before, object) &&
		(o.reads.counts(o.resource, before) || o.reads.counts(o.resource, object))
	if object == nil {
		delete(o.objects, key)
	} else {
		o.objects[key] = object
	}
	if shows {
		o.sorted = nil
	}
	o.mu.Unlock()
	if shows {
		o.onEvent(o, objectsChanged)
	}
}

// UpdateResourceVersion is called by the Reflector for each event, bookmarks
// included.
func (o *objectWatch) UpdateResourceVersion(revision string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.revision = revision
}

func (o *objectWatch) Replace(list []any, revision string) error {
	o.mu.Lock()
	objects := make(map[inventory.Key]any, len(list))
	changed := len(list) != len(o.objects)
	for _, obj := range list {
		object := o.keptObject(obj)
		key := keyOf(object)
		if before, ok := o.objects[key]; ok && apiequality.Semantic.DeepEqual(before, object) {
			object = before
		} else {
			changed = true
		}
		objects[key] = object
	}
	if changed {
		o.objects, o.sorted = objects, nil
	}
	hasRegressed := older(revision, o.revision)
	o.mu.Unlock()
	if hasRegressed {
		o.onEvent(o, regressed)
	}
	o.update(func() { o.listed(time.Now(), revision) })
	if changed {
		o.onEvent(o, objectsChanged)
	}
	return nil
}

// Resync does nothing: the Reflector is not asked to resync.
func (o *objectWatch) Resync() error { return nil }

func keyOf(obj any) inventory.Key {
	m, ok := obj.(named)
	if !ok {
		return inventory.Key{}
	}
	return inventory.Key{Namespace: m.GetNamespace(), Name: m.GetName()}
}
