package classify

import (
	"context"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// BootstrapGraph shows which Pods behind webhooks need which webhooks to be
// created: what the check bootstrap-deadlock finds its cycles in.
type BootstrapGraph struct {
	Nodes []BootstrapNode
	Edges []BootstrapEdge
	// Independent counts the webhooks that refuse nothing which another needs,
	// and whose own Pods no webhook refuses.
	Independent int
	// Truncated says that there are too many different webhooks to compare all of
	// them: those without a deadlock may be missing.
	Truncated bool
}

// BootstrapNode is a group of workloads that no webhook distinguishes.
type BootstrapNode struct {
	// Names are the workloads or Services, sorted.
	Names []string
	// Webhooks are those that the workloads serve, sorted.
	Webhooks []inventory.Ref
	// Use says what every Pod needs the workloads for, "" where none does.
	Use string
	// Cycle says that the node takes part in a deadlock.
	Cycle bool
}

// BootstrapEdge says that the Pods of From are not created unless those of To
// run.
type BootstrapEdge struct {
	From, To int
	// Webhooks are those that refuse the Pods of From, sorted; none where every
	// Pod needs what To does.
	Webhooks []inventory.Ref
	// What completes "refuses … FROM".
	What string
	// Certain is false where labels that are not known may exempt From.
	Certain bool
	Cycle   bool
}

// The bounds of what a graph costs: webhooks that differ, those with a deadlock
// first, and pairs of workloads and webhooks, those of cycles first.
const (
	maxBootstrapWebhooks = 150
	maxBootstrapPairs    = 4_000
)

// BootstrapGraph computes the graph of the Report's Snapshot.
func (r *Report) BootstrapGraph(ctx context.Context) BootstrapGraph {
	w := newWork(ctx)
	relevant, truncated := mostRelevant(pointers(r.Profiles))
	blocking := findBlockingWebhooks(w, r.Snapshot, relevant)
	if len(blocking) == 0 {
		return BootstrapGraph{}
	}
	g := newStartGraph(w, r.Matcher, blocking)
	g.counts = dependency.possible
	if !w.ended {
		g.connect()
	}
	if w.ended {
		return BootstrapGraph{Truncated: true}
	}
	b := graphBuilder{startGraph: g, pairs: maxBootstrapPairs, truncated: truncated, edges: map[[2]int]*BootstrapEdge{}}
	for _, inCycles := range []bool{true, false} {
		for class := range g.classes {
			b.refusalsOf(class, inCycles)
		}
	}
	b.needsOfEveryPod()
	return b.graph()
}

// mostRelevant are the webhooks with a deadlock, then others that could have one,
// up to a bound. Those that are called for the same and have the same Service
// count once.
func mostRelevant(profiles []*Profile) (out []*Profile, truncated bool) {
	type kind struct {
		matchKey string
		service  inventory.Key
	}
	known := map[kind]bool{}
	for _, deadlocked := range []bool{true, false} {
		for _, p := range profiles {
			if (p.Deadlock != nil) != deadlocked || !p.FailsClosed() {
				continue
			}
			k := kind{p.matchKey, p.State.Service.Key}
			if known[k] {
				out = append(out, p)
				continue
			}
			if len(known) == maxBootstrapWebhooks && !truncated {
				truncated = canBlock(p.Facts)
			}
			if len(known) < maxBootstrapWebhooks && canBlock(p.Facts) {
				known[k] = true
				out = append(out, p)
			}
		}
	}
	return out, truncated
}

// graphBuilder collects the edges between the classes of a startGraph.
type graphBuilder struct {
	*startGraph
	// pairs is how many may still be compared.
	pairs     int
	truncated bool
	edges     map[[2]int]*BootstrapEdge
}

// refusalsOf adds the edges of the webhooks that refuse the Pods of a class: those
// of cycles, or the others.
func (b *graphBuilder) refusalsOf(class int, inCycles bool) {
	for _, r := range b.refusersOf(class) {
		if r == nil {
			continue
		}
		for _, node := range r.nodes {
			if inCycle := b.cycleOf[node] == b.cycleOf[class]; inCycle != inCycles {
				continue
			}
			if b.pairs <= 0 {
				b.truncated = true
				return
			}
			b.pairs -= len(b.blocking[node-len(b.classes)].members)
			if refused, ok := b.refuses(node, class); ok {
				b.refusal(node, class, refused)
			}
		}
	}
}

// refusal adds the edges to what serves the webhooks of a node.
func (b *graphBuilder) refusal(node, class int, refused dependency) {
	for _, member := range b.blocking[node-len(b.classes)].members {
		to := member.own.class
		e := b.edge(class, to)
		e.Cycle = e.Cycle || b.cycleOf[class] == b.cycleOf[node] && b.cycleOf[node] == b.cycleOf[to]
		e.Webhooks = append(e.Webhooks, member.profile.Ref)
		if refused.certain() || e.What == "" {
			e.What = refused.what
		}
		e.Certain = e.Certain || refused.certain()
	}
}

func (b *graphBuilder) edge(from, to int) *BootstrapEdge {
	key := [2]int{from, to}
	if b.edges[key] == nil {
		b.edges[key] = &BootstrapEdge{From: from, To: to}
	}
	return b.edges[key]
}

// needsOfEveryPod adds the edges to what every Pod needs, as far as a webhook
// refuses that.
func (b *graphBuilder) needsOfEveryPod() {
	refused := map[int]bool{}
	for key := range b.edges {
		refused[key[0]] = true
	}
	drawn := map[int]bool{}
	for key := range b.edges {
		drawn[key[0]], drawn[key[1]] = true, true
	}
	for class := range drawn {
		for _, n := range b.nodes {
			if n.class == class || !refused[n.class] || !b.classes[class].network {
				continue
			}
			e := b.edge(class, n.class)
			e.Certain = true
			e.Cycle = e.Cycle || b.cycleOf[class] == b.cycleOf[n.class] && b.cycleOf[class] == b.cycleOf[b.everyPod()]
		}
	}
}

// graph numbers the classes that have an edge, those of cycles first.
func (b *graphBuilder) graph() BootstrapGraph {
	out := BootstrapGraph{Truncated: b.truncated}
	cycle, drawn := map[int]bool{}, map[int]bool{}
	for key, e := range b.edges {
		drawn[key[0]], drawn[key[1]] = true, true
		cycle[key[0]] = cycle[key[0]] || e.Cycle
		cycle[key[1]] = cycle[key[1]] || e.Cycle
	}
	number := map[int]int{}
	for _, cyclic := range []bool{true, false} {
		for class := range b.classes {
			if drawn[class] && cycle[class] == cyclic {
				number[class] = len(out.Nodes)
				out.Nodes = append(out.Nodes, b.node(class, cyclic))
			}
		}
	}
	for _, e := range b.edges {
		e.From, e.To = number[e.From], number[e.To]
		slices.SortFunc(e.Webhooks, inventory.Ref.Compare)
		out.Edges = append(out.Edges, *e)
	}
	slices.SortFunc(out.Edges, func(a, b BootstrapEdge) int { return slices.Compare([]int{a.From, a.To}, []int{b.From, b.To}) })
	for _, class := range b.blocking {
		for _, member := range class.members {
			if !drawn[member.own.class] {
				out.Independent++
			}
		}
	}
	return out
}

func (b *graphBuilder) node(class int, cycle bool) BootstrapNode {
	n := BootstrapNode{Cycle: cycle}
	for _, p := range b.classes[class].components {
		n.Names = append(n.Names, p.name)
		if p.use != "" {
			n.Use = p.use
		}
	}
	slices.Sort(n.Names)
	n.Names = slices.Compact(n.Names)
	for _, refusing := range b.blocking {
		if _, serves := slices.BinarySearch(refusing.backends, class); !serves {
			continue
		}
		for _, member := range refusing.members {
			if member.own.class == class {
				n.Webhooks = append(n.Webhooks, member.profile.Ref)
			}
		}
	}
	slices.SortFunc(n.Webhooks, inventory.Ref.Compare)
	return n
}
