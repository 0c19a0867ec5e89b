package cluster

import (
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

// feed keeps the objects of one source current. It is the store of a client-go
// reflector, and it sees each call that the reflector makes: the reflector
// itself tells of few of its failures.
type feed struct {
	source
	// tell is called after each event, and never waits.
	tell func(*feed, event)

	// relistAfter is the greatest age of a list at which a watch still resumes
	// from it.
	relistAfter time.Duration

	mu      sync.Mutex
	objects map[inventory.Key]any
	state   state
	// open is the stream that is being read, if any.
	open *stream
}

// event is what a feed tells.
type event int

const (
	objectsChanged event = iota
	stateChanged
	callFailed
	recovered
	// regressed says that the resource version went back.
	regressed
)

func newFeed(s source, relistAfter time.Duration, tell func(*feed, event)) *feed {
	return &feed{source: s, relistAfter: relistAfter, tell: tell, objects: map[inventory.Key]any{}, state: state{asOf: time.Now()}}
}

// run watches until ctx is done.
func (f *feed) run(ctx context.Context, backoff wait.Backoff) {
	// client-go logs what is reported here as data.
	silent := klog.Logger{}
	reflector := cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc:  f.listFor,
		WatchFuncWithContext: f.watchFor,
	}, f.example, f, cache.ReflectorOptions{
		Name:    f.GroupResource.String(),
		Logger:  &silent,
		Backoff: &backoff,
	})
	reflector.RunWithContext(klog.NewContext(ctx, silent))
}

// listFor lists for the reflector, where the API server does not stream the
// initial list. It asks for the newest state whatever the reflector asks for:
// the API server pages nothing else.
func (f *feed) listFor(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	f.update((*state).listing)
	list, err := f.listAll(ctx, func(int) {})
	if err != nil {
		f.fail(ctx, "list", err)
		return nil, err
	}
	return list, nil
}

// watchFor opens a stream for the reflector. A stream that is to begin with a
// list and cannot be opened is no failure yet: the reflector lists instead. It
// lists the newest state, as listFor does: the resource version that the
// reflector knows may be one that the API server no longer has.
func (f *feed) watchFor(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	initial := options.SendInitialEvents != nil
	switch {
	case initial:
		options.ResourceVersion = ""
		f.update((*state).listing)
	case f.known().listIsOlder(time.Now().Add(-f.relistAfter)):
		return nil, errOutdated
	}
	w, err := f.watch(ctx, options)
	if _, streams := w.(*watch.StreamWatcher); err == nil && !streams {
		// client-go hides that the connection broke.
		err = errClosed
	}
	switch {
	case err != nil && initial:
		// An API server that cannot stream lists says so to those who may watch.
		f.update(func(s *state) { s.mayWatch = apierrors.IsInvalid(err) })
		return nil, final(err)
	case err != nil:
		f.fail(ctx, "watch", err)
		return nil, err
	case initial:
		f.update((*state).begun)
	default:
		f.update((*state).resumed)
	}
	s := &stream{Interface: w, closed: sync.OnceFunc(f.close)}
	if f.setOpen(s) {
		s.Stop()
		return nil, errOutdated
	}
	return s, nil
}

// errOutdated makes the reflector list anew.
var errOutdated = apierrors.NewResourceExpired("the last list is too old to resume from")

// setOpen makes the stream the one that relist ends. It reports whether relist
// was called while the stream was being opened.
func (f *feed) setOpen(s *stream) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = s
	return f.state.outdated
}

// relist makes the reflector list anew, and not resume from what it knows.
func (f *feed) relist() {
	f.mu.Lock()
	f.state.forget()
	open := f.open
	f.mu.Unlock()
	if open != nil {
		open.Stop()
	}
}

var errClosed = errors.New("the API server closed the connection")

// final hides from the reflector that a failed attempt to stream the initial
// list could be repeated: it would sleep up to the longest pause, deaf to the
// end of its context. Now it lists, fails in the same way, and pauses as it
// should.
func final(err error) error {
	if expired(err) {
		return err
	}
	return struct{ error }{err}
}

// stream tells when the reflector is done with it.
type stream struct {
	watch.Interface
	closed func()
}

// Stop ends the stream. The reflector calls it after any end.
func (s *stream) Stop() {
	s.closed()
	s.Interface.Stop()
}

func (f *feed) close() { f.update(func(s *state) { s.closed(time.Now()) }) }

func (f *feed) fail(ctx context.Context, verb string, err error) {
	if ctx.Err() != nil || expired(err) {
		return
	}
	reason := f.failure(verb, err)
	reason.listOnly = f.known().mayWatch
	f.update(func(s *state) { s.failed(reason) })
	f.tell(f, callFailed)
}

// update changes the state and tells of it where a Snapshot would show it.
func (f *feed) update(change func(*state)) {
	f.mu.Lock()
	before := f.state
	change(&f.state)
	after := f.state
	f.mu.Unlock()
	switch {
	case before.failure != nil && after.failure == nil:
		f.tell(f, recovered)
	case before.answered() != after.answered() || before.synced != after.synced || !before.failure.same(after.failure):
		f.tell(f, stateChanged)
	}
}

// result returns the objects by namespace and name, and what holds of them.
func (f *feed) result() result {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := result{source: f.source, known: f.state.synced}
	for _, key := range slices.SortedFunc(maps.Keys(f.objects), inventory.Key.Compare) {
		r.objects = append(r.objects, f.objects[key])
	}
	if f.state.failure != nil {
		reason := *f.state.failure
		if f.state.synced {
			reason.asOf = f.state.asOf
		}
		r.failure = &reason
	}
	return r
}

func (f *feed) known() state {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// Add is called by the reflector for an object that is new.
func (f *feed) Add(obj any) error { return f.Update(obj) }

// Update is called by the reflector for an object that changed. One that reads
// as before is no other object: a Succession tells them apart by where they are.
func (f *feed) Update(obj any) error {
	stripped, key := f.take(obj)
	f.mu.Lock()
	changed := !apiequality.Semantic.DeepEqual(f.objects[key], stripped)
	if changed {
		f.objects[key] = stripped
	}
	f.mu.Unlock()
	if changed {
		f.tell(f, objectsChanged)
	}
	return nil
}

// Delete is called by the reflector for an object that is gone.
func (f *feed) Delete(obj any) error {
	key := keyOf(obj)
	f.mu.Lock()
	_, changed := f.objects[key]
	delete(f.objects, key)
	f.mu.Unlock()
	if changed {
		f.tell(f, objectsChanged)
	}
	return nil
}

// UpdateResourceVersion is called by the reflector for each event, bookmarks
// included.
func (f *feed) UpdateResourceVersion(revision string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.revision = revision
}

// Replace is called by the reflector with a complete list.
func (f *feed) Replace(list []any, revision string) error {
	f.mu.Lock()
	objects := make(map[inventory.Key]any, len(list))
	changed := len(list) != len(f.objects)
	for _, obj := range list {
		stripped, key := f.take(obj)
		if before, known := f.objects[key]; known && apiequality.Semantic.DeepEqual(before, stripped) {
			stripped = before
		} else {
			changed = true
		}
		objects[key] = stripped
	}
	f.objects = objects
	before := f.state.beforeList
	f.mu.Unlock()
	if older(revision, before) {
		f.tell(f, regressed)
	}
	f.update(func(s *state) { s.listed(time.Now(), revision) })
	if changed {
		f.tell(f, objectsChanged)
	}
	return nil
}

// Resync is never asked for.
func (f *feed) Resync() error { return nil }

// Transformer lets the reflector strip objects while the initial list streams
// in.
func (f *feed) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		stripped, _ := f.take(obj)
		return stripped, nil
	}
}

func (f *feed) take(obj any) (any, inventory.Key) {
	if m, ok := obj.(metav1.Object); ok {
		f.strip(m)
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
