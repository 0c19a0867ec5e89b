package start

import (
	"cmp"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Drawing shows which Pods behind webhooks need which webhooks to be created.
type Drawing struct {
	Nodes []Node
	Edges []Edge
	// Independent counts the webhooks that refuse nothing which another needs,
	// and whose own Pods no webhook refuses.
	Independent int
	// Truncated says that there are too many different webhooks to compare all of
	// them: those that come last may be missing.
	Truncated bool
}

// Node is a group of workloads that no webhook distinguishes.
type Node struct {
	// Names are the workloads or Services, sorted.
	Names []string
	// Webhooks are those that the workloads serve, sorted.
	Webhooks []inventory.Ref
	// Use says what every Pod needs the workloads for, "" where none does.
	Use string
	// Cycle says that the node takes part in a deadlock.
	Cycle bool
}

// Edge says that the Pods of From are not created unless those of To run.
type Edge struct {
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

// The bounds of what a drawing costs: webhooks that differ, and pairs of workloads
// and webhooks, those of cycles first.
const (
	MaxDrawnWebhooks = 150
	maxDrawnPairs    = 4_000
)

// Draw draws the Graph of the first webhooks.
func Draw(step Step, m *admission.Matcher, webhooks []Webhook) Drawing {
	relevant, truncated := firstDifferent(webhooks)
	g := New(step, m, relevant)
	if !g.ended {
		g.connect()
	}
	if g.ended {
		return Drawing{Truncated: true}
	}
	d := drawer{Graph: g, pairs: maxDrawnPairs, truncated: truncated, edges: map[[2]int]*Edge{}}
	for _, inCycles := range []bool{true, false} {
		for class := range g.classes {
			d.refusalsOf(class, inCycles)
		}
	}
	d.needsOfEveryPod()
	return d.drawing()
}

// firstDifferent are the first webhooks up to a bound. Those that are called for the
// same and have the same Service count once.
func firstDifferent(webhooks []Webhook) (out []Webhook, truncated bool) {
	type kind struct {
		key     string
		service inventory.Key
	}
	known := map[kind]bool{}
	for _, w := range webhooks {
		k := kind{w.Key, w.Service}
		if !known[k] && len(known) == MaxDrawnWebhooks {
			truncated = true
			continue
		}
		known[k] = true
		out = append(out, w)
	}
	return out, truncated
}

// drawer collects the edges between the classes of a Graph.
type drawer struct {
	*Graph
	// pairs is how many may still be compared.
	pairs     int
	truncated bool
	edges     map[[2]int]*Edge
}

// refusalsOf adds the edges of the webhooks that refuse the Pods of a class: those
// of cycles, or the others.
func (d *drawer) refusalsOf(class int, inCycles bool) {
	for node := range d.candidates(class) {
		if inCycle := d.cycleOf[node] == d.cycleOf[class]; inCycle != inCycles || node == d.everyPod() {
			continue
		}
		if d.pairs <= 0 {
			d.truncated = true
			return
		}
		d.pairs -= len(d.at(node).members)
		if refused, ok := d.refuses(node, class); ok {
			d.refusal(node, class, refused)
		}
	}
}

// refusal adds the edges to what serves the webhooks of a node.
func (d *drawer) refusal(node, class int, refused refusal) {
	for _, m := range d.at(node).members {
		to := m.own.class
		e := d.edge(class, to)
		e.Cycle = e.Cycle || d.cycleOf[class] == d.cycleOf[node] && d.cycleOf[node] == d.cycleOf[to]
		e.Webhooks = append(e.Webhooks, m.webhook.Ref)
		if refused.certain || e.What == "" {
			e.What = what[refused.resource]
		}
		e.Certain = e.Certain || refused.certain
	}
}

func (d *drawer) edge(from, to int) *Edge {
	key := [2]int{from, to}
	if d.edges[key] == nil {
		d.edges[key] = &Edge{From: from, To: to}
	}
	return d.edges[key]
}

// needsOfEveryPod adds the edges to what every Pod needs, as far as a webhook
// refuses that.
func (d *drawer) needsOfEveryPod() {
	refused, drawn := map[int]bool{}, map[int]bool{}
	for key := range d.edges {
		refused[key[0]] = true
		drawn[key[0]], drawn[key[1]] = true, true
	}
	every := d.everyPod()
	for class := range drawn {
		for _, needed := range d.at(every).backends {
			if needed == class || !refused[needed] || !d.classes[class].network {
				continue
			}
			e := d.edge(class, needed)
			e.Certain = true
			e.Cycle = e.Cycle || d.cycleOf[class] == d.cycleOf[needed] && d.cycleOf[class] == d.cycleOf[every]
		}
	}
}

// drawing numbers the classes that have an edge, those of cycles first.
func (d *drawer) drawing() Drawing {
	out := Drawing{Truncated: d.truncated}
	cycle, drawn, number := map[int]bool{}, map[int]bool{}, map[int]int{}
	for key, e := range d.edges {
		for _, class := range key {
			drawn[class] = true
			cycle[class] = cycle[class] || e.Cycle
		}
	}
	for _, cyclic := range []bool{true, false} {
		for class := range d.classes {
			if drawn[class] && cycle[class] == cyclic {
				number[class] = len(out.Nodes)
				out.Nodes = append(out.Nodes, d.node(class, cyclic))
			}
		}
	}
	for _, e := range d.edges {
		e.From, e.To = number[e.From], number[e.To]
		slices.SortFunc(e.Webhooks, inventory.Ref.Compare)
		out.Edges = append(out.Edges, *e)
	}
	slices.SortFunc(out.Edges, func(a, b Edge) int { return slices.Compare([]int{a.From, a.To}, []int{b.From, b.To}) })
	for _, class := range d.blocking {
		for _, m := range class.members {
			if m.webhook != nil && !drawn[m.own.class] {
				out.Independent++
			}
		}
	}
	return out
}

func (d *drawer) node(class int, cycle bool) Node {
	n := Node{Cycle: cycle}
	for _, c := range d.classes[class].components {
		n.Names = append(n.Names, c.name)
		n.Use = cmp.Or(c.use, n.Use)
	}
	n.Names = text.Distinct(n.Names)
	for _, node := range d.serves[class] {
		for _, m := range d.at(node).members {
			if m.own.class == class && m.webhook != nil {
				n.Webhooks = append(n.Webhooks, m.webhook.Ref)
			}
		}
	}
	slices.SortFunc(n.Webhooks, inventory.Ref.Compare)
	return n
}
