package classify

import (
	"slices"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify/start"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// TestBootstrapGraph: a webhook has an edge of a cycle exactly where the check
// finds it in a deadlock.
func TestBootstrapGraph(t *testing.T) {
	r := reportOn(t, "testdata/bootstrap-deadlock.yaml")
	g := r.BootstrapGraph(t.Context())
	if len(g.Nodes) == 0 || g.Truncated {
		t.Fatalf("got %d nodes, truncated %t", len(g.Nodes), g.Truncated)
	}
	inCycle := map[inventory.Ref]bool{}
	for _, e := range g.Edges {
		for _, ref := range e.Webhooks {
			inCycle[ref] = inCycle[ref] || e.Cycle
		}
		if e.Cycle && (!g.Nodes[e.From].Cycle || !g.Nodes[e.To].Cycle) {
			t.Errorf("the edge from %v to %v is of a cycle, its nodes are not", g.Nodes[e.From].Names, g.Nodes[e.To].Names)
		}
	}
	deadlocks := 0
	for i := range r.Profiles {
		p := &r.Profiles[i]
		if p.Deadlock != nil {
			deadlocks++
		}
		if inCycle[p.Ref] != (p.Deadlock != nil) {
			t.Errorf("%v: an edge of a cycle: %t, a deadlock: %t", p.Ref, inCycle[p.Ref], p.Deadlock != nil)
		}
	}
	if deadlocks < 5 {
		t.Errorf("%d deadlocks in the fixture: it was not read", deadlocks)
	}
	if !slices.ContainsFunc(g.Edges, func(e start.Edge) bool { return e.From == e.To && e.Cycle }) {
		t.Error("no webhook refuses its own Pods")
	}
}

// TestBootstrapGraphBound: however many webhooks differ, a graph holds a bounded
// part of them, and says so.
func TestBootstrapGraphBound(t *testing.T) {
	truncated := 0
	for _, c := range crowds {
		s := c.of(2 * start.MaxDrawnWebhooks).Snapshot(taken)
		g := evaluate(t, DefaultPolicy(), s).BootstrapGraph(t.Context())
		if most := start.MaxDrawnWebhooks + len(s.Workloads); len(g.Nodes) > most {
			t.Errorf("%s: %d nodes, want %d at most", c.name, len(g.Nodes), most)
		}
		if g.Truncated {
			truncated++
		}
	}
	if truncated == 0 {
		t.Error("no graph is truncated")
	}
}

// BenchmarkBootstrapGraph computes the graph of each hostile shape.
func BenchmarkBootstrapGraph(b *testing.B) {
	for _, c := range crowds {
		b.Run(c.name, func(b *testing.B) {
			r := evaluate(b, DefaultPolicy(), c.of(5000).Snapshot(taken))
			for b.Loop() {
				r.BootstrapGraph(b.Context())
			}
		})
	}
}
