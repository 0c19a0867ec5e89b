package cluster

import (
	"context"
	"errors"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// A restore of etcd from a backup takes the API server back to a resource
// version that watches have passed. A watch that resumes from such a version gets
// no event and no error until the API server has reached it again, and never what
// changed in between. A list of the newest state shows the restore: its resource
// version is behind one that was seen before.
//
// An API server that has lost its connection to etcd keeps its watches open, and
// sends no event and no error either. A list of the newest state, which another
// API server may answer, shows that as well: the stream does not come to its
// resource version. Nor does a stream without bookmarks of what does not change: only
// a list of everything distinguishes these two.

// The time that the API server has for one object of each resource, and for a list of
// everything.
const (
	compareTimeout = 10 * time.Second
	verifyTimeout  = 30 * time.Second
)

var errLagging = errors.New("watches do not come to the newest state, as with an API server that has lost its connection to etcd: check /readyz of each API server")

// checkRevisions compares the watches with the API server's newest state, of which it
// reads one object of each resource. Streams that lack changes are opened anew, over
// another connection: a load balancer may choose another API server for that.
func (c Clients) checkRevisions(ctx context.Context, watches []*objectWatch, progressWait time.Duration) {
	began := time.Now()
	newest, err := newestRevisions(ctx, watches)
	if errors.Is(err, errRegressed) {
		return // everything is listed again
	}
	if err == nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(progressWait):
		}
	}
	isComplete := func(o *objectWatch) bool {
		o.compare(newest[o.GroupResource], began)
		return o.isComplete(began)
	}
	incomplete := slices.DeleteFunc(watches, isComplete)
	if !slices.ContainsFunc(incomplete, func(o *objectWatch) bool { return o.isLagging(ctx) }) {
		return
	}
	for _, o := range incomplete {
		if !isComplete(o) { // still: the lists took their time
			o.endLagging(ctx)
		}
	}
	c.connections.CloseAll()
}

var errRegressed = errors.New("the resource version went back")

// newestRevisions returns the newest resource version of each resource, as far as the
// API server says it, and the first error that is no refusal.
func newestRevisions(ctx context.Context, watches []*objectWatch) (map[schema.GroupResource]string, error) {
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	out := map[schema.GroupResource]string{}
	for _, o := range watches {
		before, ok := o.reached()
		if _, isFound := out[o.GroupResource]; isFound || !ok {
			continue
		}
		list, err := o.list(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case isAnswer(err):
			continue // the watch of the resource reports it
		case err != nil:
			return out, err
		}
		accessor, err := meta.ListAccessor(list)
		utilruntime.Must(err)
		out[o.GroupResource] = accessor.GetResourceVersion()
		if older(out[o.GroupResource], before) {
			o.onEvent(o, regressed)
			return nil, errRegressed
		}
	}
	return out, nil
}

// isAnswer reports whether the error of a list says nothing about etcd.
func isAnswer(err error) bool {
	f := failure{err: err}
	return err != nil && (f.refused() || f.notServed() || apierrors.IsTooManyRequests(err) || expired(err))
}

// reached returns up to which resource version the stream has come.
func (o *objectWatch) reached() (revision string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.revision, o.revision != "" && o.isListed()
}

// compare notes that nothing was missing at the time, where the stream has come to the
// resource version that was the newest then.
func (o *objectWatch) compare(newest string, began time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.isListed() && o.revision != "" && newest != "" && !older(o.revision, newest) {
		o.confirmed = later(o.confirmed, began)
	}
}

// isComplete reports whether nothing was missing at the time or later, or an answer of the
// API server says why.
func (o *objectWatch) isComplete(began time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	isAnswered := o.stream == nil && (o.failure == nil || isAnswer(o.failure.err))
	return !o.confirmed.Before(began) || isAnswered
}

// isLagging reports whether a list of everything fails or shows changes that the
// stream lacks.
func (o *objectWatch) isLagging(ctx context.Context) bool {
	listing, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	began := time.Now()
	list, err := o.listPages(listing, func(int) {})
	if err != nil {
		return ctx.Err() == nil && !isAnswer(err)
	}
	objects, err := meta.ExtractList(list)
	if err != nil || o.differsFrom(objects) {
		return true
	}
	o.update(func() { o.confirmed = began })
	return false
}

func (o *objectWatch) differsFrom(list []runtime.Object) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(list) != len(o.objects) || slices.ContainsFunc(list, func(obj runtime.Object) bool {
		return !apiequality.Semantic.DeepEqual(o.objects[keyOf(obj)], obj)
	})
}

// endLagging ends the stream, if there is one, as it may lack changes: the Reflector lists
// again then.
func (o *objectWatch) endLagging(ctx context.Context) {
	streams := false
	o.update(func() {
		streams = o.stream != nil
		if o.state == current {
			o.move(mayLackChanges, o.confirmed)
		}
	})
	if streams {
		o.fail(ctx, "watch", errLagging)
	}
}

// older reports whether the resource version a is before b. Versions that are no
// numbers, or unknown, have no order.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
