package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// A restore of etcd from a backup takes the API server back to a resource
// version that watches have passed. One that resumes from such a version gets no
// event and no error until the API server is there again, and never what changed
// meanwhile. A list of the newest state shows it: its resource version is never
// behind what was seen before, unless the store itself went back.

// revisions returns up to which resource version the cluster-wide resources are
// known, by feed.
func revisions(feeds []*feed) map[*feed]string {
	out := map[*feed]string{}
	for _, f := range feeds {
		if revision := f.known().revision; revision != "" {
			out[f] = revision
		}
	}
	return out
}

// checkRevisions compares what is known with the API server's newest state, of
// which it reads one object of each resource.
func checkRevisions(ctx context.Context, known map[*feed]string) {
	ctx, cancel := context.WithTimeout(ctx, factsTimeout)
	defer cancel()
	for f, before := range known {
		list, err := f.list(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			continue // the watch of the resource reports it
		}
		accessor, err := meta.ListAccessor(list)
		switch {
		case err != nil:
		case older(accessor.GetResourceVersion(), before):
			f.tell(f, regressed)
			return // everything is listed anew, whatever the others show
		default:
			f.seen(accessor.GetResourceVersion())
		}
	}
}

// seen records a resource version that the API server has reached.
func (f *feed) seen(revision string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if older(f.state.revision, revision) {
		f.state.revision = revision
	}
}

// older reports whether the resource version a is before b. Versions that are no
// numbers, or unknown, are in no order.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
