package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// parallel is how many lists run at a time: enough to hide the latency of a
// remote cluster, few enough for the API server not to notice.
const parallel = 8

// Read reads the cluster once, without watching it. As the objects of a
// resource come in, it tells how many there are so far; the calls to progress
// never overlap. What could not be read is told in Objects.Errors; Read fails
// only where nothing could be read.
func Read(ctx context.Context, clients Clients, options Options, progress func(resource string, objects int)) (inventory.Objects, error) {
	ctx = klog.NewContext(ctx, klog.Logger{})
	began := time.Now()
	r := reader{progress: progress, counts: map[string]int{}}
	var told facts
	var group sync.WaitGroup
	group.Go(func() { told = clients.readFacts(ctx, facts{}) })
	results := r.readAll(ctx, clients.clusterSources())
	group.Wait()
	if err := nothingRead(ctx, results, told); err != nil {
		return inventory.Objects{}, fmt.Errorf("reading cluster %s: %w", clients.host, err)
	}
	var sources []source
	for _, p := range slices.SortedFunc(maps.Keys(wanted(assemble(results, told).Snapshot(began))), place.compare) {
		sources = append(sources, clients.sources(p)...)
	}
	o := options.assemble(slices.Concat(results, r.readAll(ctx, sources)), told)
	o.Current = began
	return o, ctx.Err()
}

// nothingRead returns why there is nothing to go on with, if so.
func nothingRead(ctx context.Context, results []result, told facts) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if slices.ContainsFunc(results, func(r result) bool { return r.known }) {
		return nil
	}
	if errs := assemble(results, told).Errors; len(errs) > 0 {
		return errs[0]
	}
	return nil
}

// reader lists sources, and counts what comes.
type reader struct {
	mu       sync.Mutex
	progress func(string, int)
	counts   map[string]int
}

func (r *reader) readAll(ctx context.Context, sources []source) []result {
	out := make([]result, len(sources))
	slots := make(chan struct{}, parallel)
	var group sync.WaitGroup
	for i, s := range sources {
		slots <- struct{}{}
		group.Go(func() {
			out[i] = r.read(ctx, s)
			<-slots
		})
	}
	group.Wait()
	return out
}

func (r *reader) read(ctx context.Context, s source) result {
	if !s.possible() {
		return result{source: s, known: true}
	}
	before := 0
	list, err := s.listAll(ctx, func(n int) {
		r.count(s, n-before)
		before = n
	})
	if err != nil {
		state, reason := state{}, s.failure("list", err)
		reason.listOnly = true
		state.failed(reason)
		return result{source: s, failure: state.failure}
	}
	out := result{source: s, known: true}
	for _, item := range list.Items {
		out.objects = append(out.objects, item)
	}
	return out
}

func (r *reader) count(s source, more int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	resource := s.GroupResource.String()
	r.counts[resource] += more
	r.progress(resource, r.counts[resource])
}
