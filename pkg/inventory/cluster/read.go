package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// parallel is how many lists run at a time: enough to hide the latency of a
// remote cluster, few enough not to load the API server.
const parallel = 8

// Read reads the cluster once, without watching it. While it reads it reports how
// many objects of a resource there are so far; the calls of progress never
// overlap. What cannot be read is in Objects.Errors; Read fails only where nothing
// could be read.
func Read(ctx context.Context, clients Clients, options Options, progress func(resource string, objects int)) (inventory.Objects, error) {
	ctx = klog.NewContext(ctx, klog.Logger{})
	began := time.Now()
	clients.connect(ctx)
	r := reader{progress: progress, counts: map[string]int{}}
	var info serverInfo
	var group sync.WaitGroup
	group.Go(func() { info = clients.fetchServerInfo(ctx, serverInfo{}) })
	all := r.readAll(ctx, clients.clusterResources())
	group.Wait()
	found := assemble(options, all, info)
	if err := nothingRead(ctx, all, found.Errors); err != nil {
		return inventory.Objects{}, fmt.Errorf("reading cluster %s: %w", clients.host, err)
	}
	snapshot := found.Snapshot(began)
	scoped := r.readScopes(ctx, clients, snapshot)
	o := assemble(options, slices.Concat(all, scoped), r.readParams(ctx, clients, snapshot, info))
	o.Current = began
	return o, ctx.Err()
}

// readScopes reads what belongs to the webhooks; what turns out to be too broad it
// reads in parts.
func (r *reader) readScopes(ctx context.Context, clients Clients, s *inventory.Snapshot) []contents {
	var out []contents
	broad, read := map[watchScope]bool{}, map[watchScope]bool{}
	for {
		scopes := wantedScopes(admission.New(s), broad)
		maps.DeleteFunc(scopes, func(scope watchScope, _ keySet) bool { return read[scope] })
		if len(scopes) == 0 {
			return out
		}
		for _, c := range r.readAll(ctx, clients.resourcesOf(scopes)) {
			read[c.scope] = true
			if c.failure != nil && c.mustSplit(c.failure.err) {
				broad[c.scope.whole()] = true
				continue
			}
			c.keys = scopes[c.scope]
			c.objects = slices.DeleteFunc(c.objects, func(obj any) bool { return !c.countsFor(obj, c.keys) })
			out = append(out, c)
		}
	}
}

func (c Clients) resourcesOf(scopes map[watchScope]keySet) []resource {
	var out []resource
	for _, scope := range slices.SortedFunc(maps.Keys(scopes), watchScope.compare) {
		out = append(out, c.resourceIn(scope))
	}
	return out
}

// nothingRead returns why nothing was read, if so.
func nothingRead(ctx context.Context, all []contents, errs []inventory.Error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if slices.ContainsFunc(all, func(c contents) bool { return c.known }) {
		return nil
	}
	if len(errs) > 0 {
		return errs[0]
	}
	return nil
}

// reader lists resources and counts the objects.
type reader struct {
	mu       sync.Mutex
	progress func(string, int)
	counts   map[string]int
}

func (r *reader) readAll(ctx context.Context, resources []resource) []contents {
	out := make([]contents, len(resources))
	slots := make(chan struct{}, parallel)
	var group sync.WaitGroup
	for i, resource := range resources {
		slots <- struct{}{}
		group.Go(func() {
			out[i] = r.read(ctx, resource)
			<-slots
		})
	}
	group.Wait()
	return out
}

func (r *reader) read(ctx context.Context, from resource) contents {
	out := contents{resource: from}
	if !from.scope.possible() {
		out.known = true
		return out
	}
	before := 0
	list, err := from.listPages(ctx, func(n int) {
		r.count(from, n-before)
		before = n
	})
	if err == nil {
		err = meta.EachListItemWithAlloc(list, func(item runtime.Object) error {
			out.objects = append(out.objects, item)
			return nil
		})
	}
	switch failure := from.failure("list", err); {
	case err == nil:
		out.known = true
	case failure.notServed():
		out.absent = true
	default:
		failure.listOnly = true
		out.failure = &failure
	}
	return out
}

func (r *reader) count(of resource, more int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := of.GroupResource.String()
	r.counts[name] += more
	r.progress(name, r.counts[name])
}
