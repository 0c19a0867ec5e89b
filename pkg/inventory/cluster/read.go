package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// parallel is how many lists run at a time: enough to hide the latency of a
// remote cluster, few enough not to load the API server.
const parallel = 8

type Progress struct {
	// Done counts the kinds that are read, Kinds those that are to be read.
	Done, Kinds int
	Resource    string
	Objects     int
}

// Read reads the cluster once, without watching it. While it reads it reports its progress;
// these calls never overlap. What cannot be read is in Objects.Errors; Read fails only where nothing
// could be read.
func Read(ctx context.Context, clients Clients, options Options, progress func(Progress)) (inventory.Objects, error) {
	ctx = klog.NewContext(ctx, klog.Logger{})
	began := time.Now()
	clients.connect(ctx)
	r := reader{progress: progress}
	var info serverInfo
	var group sync.WaitGroup
	group.Go(func() { info = clients.fetchServerInfo(ctx, serverInfo{}) })
	all := r.readAll(ctx, clients.clusterResources())
	group.Wait()
	reads := &reads{}
	found := assemble(options, all, info, reads)
	if err := nothingRead(ctx, all, found.Errors); err != nil {
		return inventory.Objects{}, fmt.Errorf("reading cluster %s: %w", clients.config.Host, err)
	}
	called := found.Snapshot(began)
	if options.Applied != nil {
		after := found.Apply(*options.Applied).Snapshot(began)
		after.Webhooks = append(after.Webhooks, called.Webhooks...)
		called = after
	}
	reads.follow(called)
	for i := range all {
		all[i].objects = slices.DeleteFunc(all[i].objects,
			func(object any) bool { return !reads.counts(all[i].resource, object) })
	}
	var pods []resource
	for _, namespace := range slices.Sorted(maps.Keys(reads.namespaces)) {
		if len(validation.IsDNS1123Label(namespace)) == 0 { // a webhook may name any
			pods = append(pods, clients.pods(namespace))
		}
	}
	all = append(all, r.readAll(ctx, pods)...)
	o := assemble(options, all, info, reads)
	o.Current = began
	return o, ctx.Err()
}

func nothingRead(ctx context.Context, all []contents, errs []inventory.Error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if slices.ContainsFunc(all, func(c contents) bool { return c.complete }) {
		return nil
	}
	if len(errs) > 0 {
		return errs[0]
	}
	return nil
}

type reader struct {
	mu       sync.Mutex
	progress func(Progress)
	// resources counts the lists of kinds that ended.
	resources, kinds int
}

func (r *reader) readAll(ctx context.Context, resources []resource) []contents {
	out := make([]contents, len(resources))
	r.kinds += len(resources)
	var group errgroup.Group
	group.SetLimit(parallel)
	for i, resource := range resources {
		group.Go(func() error {
			out[i] = r.read(ctx, resource)
			r.ended()
			return nil
		})
	}
	_ = group.Wait()
	return out
}

func (r *reader) read(ctx context.Context, resource resource) contents {
	out := contents{resource: resource}
	list, err := resource.listPages(ctx, func(n int) { r.report(resource, n) })
	if err == nil {
		err = meta.EachListItemWithAlloc(list, func(item runtime.Object) error {
			out.objects = append(out.objects, unpacked(item))
			return nil
		})
	}
	switch failure := resource.failure("list", err); {
	case err == nil:
		out.complete = true
	case failure.notServed():
		out.absent = true
	default:
		failure.listOnly = true
		out.failure = &failure
	}
	return out
}

func (r *reader) report(resource resource, objects int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress(Progress{r.resources, r.kinds, resource.GroupResource.String(), objects})
}

func (r *reader) ended() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resources++
}
