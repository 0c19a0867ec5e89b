package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// A restore of etcd from a backup takes the API server back to a resource
// version that watches have passed. A watch that resumes from such a version gets
// no event and no error until the API server has reached it again, and never what
// changed in between. A list of the newest state shows the restore: its resource
// version is behind one that was seen before.

// revisions returns up to which resource version the watches have come.
func revisions(watches []*objectWatch) map[*objectWatch]string {
	out := map[*objectWatch]string{}
	for _, o := range watches {
		o.mu.Lock()
		if o.revision != "" {
			out[o] = o.revision
		}
		o.mu.Unlock()
	}
	return out
}

// checkRevisions compares the resource versions with the API server's newest
// state, of which it reads one object of each resource.
func checkRevisions(ctx context.Context, known map[*objectWatch]string) {
	ctx, cancel := context.WithTimeout(ctx, serverInfoTimeout)
	defer cancel()
	for o, before := range known {
		list, err := o.list(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			continue // the watch of the resource reports it
		}
		accessor, err := meta.ListAccessor(list)
		switch {
		case err != nil:
		case older(accessor.GetResourceVersion(), before):
			o.onEvent(o, regressed)
			return // everything is listed again, whatever the others show
		default:
			o.noteRevision(accessor.GetResourceVersion())
		}
	}
}

// noteRevision records a resource version that the API server has reached.
func (o *objectWatch) noteRevision(revision string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if older(o.revision, revision) {
		o.revision = revision
	}
}

// older reports whether the resource version a is before b. Versions that are no
// numbers, or unknown, have no order.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
