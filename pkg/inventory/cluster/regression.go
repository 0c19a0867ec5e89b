package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

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

// regressed reports whether the API server has fewer revisions of a resource
// than it had when known was taken, as after a restore of etcd from a backup.
// A watch that resumes from a revision in the future gets no event, and no
// error either. A list of the newest state is never behind what was seen
// before, unless the store itself went back.
func regressed(ctx context.Context, known map[*feed]string) bool {
	ctx, cancel := context.WithTimeout(ctx, factsTimeout)
	defer cancel()
	for f, before := range known {
		list, err := f.list(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			continue // the watch of the resource reports it
		}
		accessor, err := meta.ListAccessor(list)
		if err != nil {
			continue
		}
		order, err := resourceversion.CompareResourceVersion(accessor.GetResourceVersion(), before)
		if err == nil && order < 0 {
			return true
		}
	}
	return false
}
