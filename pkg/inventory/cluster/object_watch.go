package cluster

import (
	"cmp"
	"context"
	"errors"
	"maps"
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
	// onEvent is called after each event. It must not block.
	onEvent func(*objectWatch, event)
	// relistAfter is the greatest age of a list from which a watch resumes, and
	// openTimeout how long the API server may take until it begins to stream.
	relistAfter, openTimeout time.Duration

	mu      sync.Mutex
	objects map[inventory.Key]any
	// sorted holds the objects that count by namespace and name; nil after a change.
	sorted []any
	// wanted are the owners whose objects count, where the resource has owners.
	wanted keySet
	// stream is the open stream, nil if there is none. It is complete if it
	// continues a complete list: the objects are current while there is a
	// complete stream.
	stream   *stream
	complete bool
	// synced is set once a complete list was read.
	synced bool
	// asOf is the last time at which the objects were known to be current, if
	// they are not now. It begins with the time at which they were first wanted.
	asOf time.Time
	// confirmed is the last time at which a list showed that nothing is missing.
	confirmed time.Time
	// failure is why the last call failed; nil once the objects are current
	// again.
	failure *failure
	// revision is the newest resource version since the last list, and
	// beforeList, while a list is read, the one before it began.
	revision, beforeList string
	// listedAt is the time of the last list, and streamed is set once a stream
	// continued it.
	listedAt time.Time
	streamed bool
	// mayWatch is set once the verb watch is known to be granted.
	mayWatch bool
	// isTooBroad is set once the scope turned out to have too many objects, or only
	// parts of it may be read.
	isTooBroad bool
	// outdated is set while the objects may differ from what the API server has
	// in a way that a watch from revision does not show.
	outdated bool
}

// event is what an objectWatch reports.
type event int

const (
	objectsChanged event = iota
	progressChanged
	callFailed
	recovered
	// regressed is an API server whose resource version went back.
	regressed
)

// progress is how far an objectWatch has come.
type progress int

const (
	unanswered progress = iota
	// failing is a watch that never read a list and may do so later.
	failing
	// absent is a resource that the API server does not serve.
	absent
	// split is a scope that is to be watched in parts.
	split
	refused
	synced
)

// contents is what an objectWatch holds at one time.
type contents struct {
	resource
	// objects are sorted by namespace and name.
	objects []any
	// keys are the Services, or namespaces, that the objects are about, where not all
	// count.
	keys keySet
	// known is set if the objects are all there are, or were at the time of
	// current.
	known bool
	// absent is set if the API server does not serve the resource.
	absent bool
	// current is the last time at which the objects were known to be current.
	current time.Time
	failure *failure
}

func newObjectWatch(r resource, t timing, onEvent func(*objectWatch, event)) *objectWatch {
	return &objectWatch{resource: r, relistAfter: t.relistAge, openTimeout: t.openTimeout, onEvent: onEvent, objects: map[inventory.Key]any{}, asOf: time.Now(), confirmed: time.Now()}
}

// setEmpty makes it a watch of what cannot exist: current without objects.
func (o *objectWatch) setEmpty() {
	o.synced, o.complete = true, true
	o.stream = &stream{Interface: watch.NewEmptyWatch(), onStop: func() {}}
}

// run watches until ctx is done.
func (o *objectWatch) run(ctx context.Context, backoff wait.Backoff) {
	// What client-go would log is reported as data.
	silent := klog.Logger{}
	reflector := cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc:  o.listForReflector,
		WatchFuncWithContext: o.watchForReflector,
	}, o.example, o, cache.ReflectorOptions{
		Name:    o.GroupResource.String(),
		Logger:  &silent,
		Backoff: &backoff,
	})
	reflector.RunWithContext(klog.NewContext(ctx, silent))
}

// listForReflector lists where the API server does not stream the initial list.
// It asks for the newest state whatever the Reflector asks for: the API server
// pages nothing else.
func (o *objectWatch) listForReflector(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	o.update(o.beginList)
	list, err := o.listPages(ctx, func(int) {})
	switch {
	case o.mustSplit(err) && !o.refusedSince(err):
		o.setTooBroad()
		<-ctx.Done() // until others replace it
	case err != nil:
		o.fail(ctx, "list", err)
	}
	return list, err
}

// watchForReflector opens a stream. That a stream cannot be opened that is to
// begin with a list is no failure yet: the Reflector lists instead. The list in
// the stream is of the newest state, as in listForReflector: the API server may
// no longer have the resource version that the Reflector knows.
func (o *objectWatch) watchForReflector(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	initial := options.SendInitialEvents != nil
	switch {
	case initial && (o.scope != watchScope{} || o.fellBehind()):
		return nil, errList
	case initial:
		options.ResourceVersion = ""
		o.update(o.beginList)
	case o.mustRelist():
		return nil, errOutdated
	}
	w, cancel, err := o.open(ctx, options)
	switch {
	case err != nil && initial:
		// An API server that cannot stream lists checks the verb watch first.
		o.update(func() { o.mayWatch = apierrors.IsInvalid(err) })
		return nil, notRetriable(err)
	case err != nil:
		o.fail(ctx, "watch", err)
		return nil, err
	}
	s := &stream{Interface: w, onStop: sync.OnceFunc(func() {
		cancel()
		o.update(func() { o.closed(time.Now()) })
	})}
	hasExpired := false
	o.update(func() {
		o.opened(s, !initial)
		hasExpired = o.outdated // since the call began
	})
	if hasExpired {
		s.Stop()
		return nil, errOutdated
	}
	return s, nil
}

// open opens a stream, which lasts until it is canceled. The call is bounded: an API
// server that has lost its connection to etcd never begins to stream a list.
func (o *objectWatch) open(ctx context.Context, options metav1.ListOptions) (watch.Interface, context.CancelFunc, error) {
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

// errList makes the Reflector list what belongs to a scope: to stream a list, the
// API server goes through all objects of the kind in the whole cluster.
var errList = errors.New("this list is not streamed")

// notRetriable hides from the Reflector that a failed attempt to stream the
// initial list could be repeated: it would sleep up to the longest pause without
// regard to the end of its context. Now it lists, fails in the same way, and
// pauses as it should.
func notRetriable(err error) error {
	if expired(err) {
		return err
	}
	return struct{ error }{err}
}

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
	o.outdated, o.revision, o.beforeList = true, "", ""
	open := o.stream
	o.mu.Unlock()
	if open != nil {
		open.Stop()
	}
}

// mustRelist reports whether the objects must be listed again: calls failed since
// the last list, the resource version went back, or the list is too old.
func (o *objectWatch) mustRelist() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.outdated || o.streamed && time.Since(o.listedAt) > o.relistAfter
}

func (o *objectWatch) fail(ctx context.Context, verb string, err error) {
	if ctx.Err() != nil || expired(err) {
		return
	}
	f, absent := o.resource.failure(verb, err), false
	o.update(func() {
		f.listOnly = o.mayWatch
		o.failed(f)
		absent = o.isAbsent()
	})
	if !absent { // older API servers lack kinds, which is an answer
		o.onEvent(o, callFailed)
	}
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

// beginList records that a list of the newest state begins.
func (o *objectWatch) beginList() {
	o.outdated = false
	o.beforeList, o.revision = cmp.Or(o.revision, o.beforeList), ""
}

// opened records a stream; a complete one continues what is known, another is to
// send a list first.
func (o *objectWatch) opened(s *stream, complete bool) {
	o.stream, o.complete, o.streamed = s, complete, complete
	o.recover()
}

// listed records that a complete list of the resource version was read.
func (o *objectWatch) listed(now time.Time, revision string) {
	if !o.synced {
		o.failure = nil // it was of the list
	}
	o.synced, o.complete, o.streamed, o.asOf = true, true, o.stream != nil, now
	o.listedAt, o.confirmed, o.revision, o.beforeList = now, now, revision, ""
	o.recover()
}

// closed records the end of the stream.
func (o *objectWatch) closed(now time.Time) {
	if o.current() {
		o.asOf = now
	}
	o.stream, o.complete = nil, false
}

// failed records that a call failed.
func (o *objectWatch) failed(f failure) {
	o.failure = &f
	if o.isAbsent() {
		return
	}
	// The cause may be a restore of etcd. An API server that is only busy does
	// not need the load of another list.
	o.outdated = o.outdated || !apierrors.IsTooManyRequests(f.err)
}

func (o *objectWatch) recover() {
	if o.current() {
		o.failure = nil
	}
}

// current reports whether the objects are what the API server has.
func (o *objectWatch) current() bool { return o.stream != nil && o.complete }

// isAbsent reports whether the API server does not serve the resource, which is
// an answer. If it did before, that is a failure: what is known is kept.
func (o *objectWatch) isAbsent() bool {
	return !o.synced && o.failure != nil && o.failure.notServed()
}

// reported returns the failure that a Snapshot shows, if any.
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
	case o.synced:
		return synced
	case o.isTooBroad:
		return split
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
		for _, key := range slices.SortedFunc(maps.Keys(o.objects), inventory.Key.Compare) {
			if obj := o.objects[key]; o.counts(obj) {
				o.sorted = append(o.sorted, obj)
			}
		}
	}
	c := contents{resource: o.resource, objects: o.sorted, keys: o.wanted, known: o.synced, absent: o.isAbsent(), current: o.asOf}
	if o.current() || c.absent {
		c.current = now
	}
	if f := o.reported(); f != nil {
		f := *f
		if o.synced {
			f.asOf = o.asOf
		}
		c.failure = &f
	}
	return c
}

// Add is called by the Reflector for a new object.
func (o *objectWatch) Add(obj any) error { return o.Update(obj) }

// Update is called by the Reflector for a changed object. One that is the same
// once it is stripped is no change that a Snapshot shows.
func (o *objectWatch) Update(obj any) error {
	stripped, key := o.stripped(obj)
	if m, ok := stripped.(metav1.Object); ok && !o.keeps(m) {
		return nil
	}
	o.mu.Lock()
	before, known := o.objects[key]
	changed := !apiequality.Semantic.DeepEqual(before, stripped)
	shows := changed && (o.counts(stripped) || known && o.counts(before)) && (!known || o.matters == nil || o.matters(before, stripped))
	if changed {
		o.objects[key] = stripped
	}
	if shows {
		o.sorted = nil
	}
	hasGrown := !known && o.most > 0 && len(o.objects) > o.most
	o.mu.Unlock()
	if shows {
		o.onEvent(o, objectsChanged)
	}
	if hasGrown {
		o.setTooBroad()
	}
	return nil
}

func (o *objectWatch) setTooBroad() {
	o.mu.Lock()
	o.isTooBroad = true
	o.mu.Unlock()
	o.onEvent(o, progressChanged)
}

func (o *objectWatch) tooBroad() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.isTooBroad
}

// refusedSince reports whether the call was refused after a list was allowed: what is
// known stays known, as that of any other resource.
func (o *objectWatch) refusedSince(err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.synced && apierrors.IsForbidden(err)
}

// counts reports whether a Snapshot shows the object.
func (o *objectWatch) counts(obj any) bool { return o.countsFor(obj, o.wanted) }

// want chooses the owners whose objects count, and reports whether these are others
// than before.
func (o *objectWatch) want(owners keySet) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if maps.Equal(o.wanted, owners) {
		return false
	}
	o.wanted, o.sorted = owners, nil
	return o.owner != nil
}

// Delete is called by the Reflector for a deleted object.
func (o *objectWatch) Delete(obj any) error {
	key := keyOf(obj)
	o.mu.Lock()
	before, known := o.objects[key]
	delete(o.objects, key)
	shows := known && o.counts(before)
	if shows {
		o.sorted = nil
	}
	o.mu.Unlock()
	if shows {
		o.onEvent(o, objectsChanged)
	}
	return nil
}

// UpdateResourceVersion is called by the Reflector for each event, bookmarks
// included.
func (o *objectWatch) UpdateResourceVersion(revision string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.revision = revision
}

// Replace is called by the Reflector with a complete list.
func (o *objectWatch) Replace(list []any, revision string) error {
	o.mu.Lock()
	objects := make(map[inventory.Key]any, len(list))
	changed := len(list) != len(o.objects)
	for _, obj := range list {
		stripped, key := o.stripped(obj)
		if before, known := o.objects[key]; known && apiequality.Semantic.DeepEqual(before, stripped) {
			stripped = before
		} else {
			changed = true
		}
		objects[key] = stripped
	}
	if changed {
		o.objects, o.sorted = objects, nil
	}
	hasRegressed := older(revision, o.beforeList)
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

// Transformer makes the Reflector strip objects while the initial list streams
// in.
func (o *objectWatch) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		stripped, _ := o.stripped(obj)
		return stripped, nil
	}
}

func (o *objectWatch) stripped(obj any) (any, inventory.Key) {
	if m, ok := obj.(metav1.Object); ok {
		o.strip(m)
	}
	return obj, keyOf(obj)
}

func keyOf(obj any) inventory.Key {
	m, ok := obj.(metav1.Object)
	if !ok {
		return inventory.Key{}
	}
	return inventory.Key{Namespace: m.GetNamespace(), Name: m.GetName()}
}
