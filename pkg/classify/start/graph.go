package start

import (
	"iter"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Graph is what waits for what to start. Its nodes are classes, because thousands
// of webhooks differ in little: those of components, then those of webhooks, of which
// the last stands for what every Pod needs. A class of components waits for the
// classes of webhooks that refuse what it needs, and those wait for what serves them.
// Whether one refuses the other is computed only where the answer can be new, so that
// finding all cycles costs one Match for each class rather than for each pair of
// them, unless most pairs have nothing to do with each other and no label shows it.
type Graph struct {
	step    Step
	steps   int
	ended   bool
	err     error
	matcher *admission.Matcher
	// webhooks counts those that New was given.
	webhooks int
	// certainly says that only what is certainly refused counts.
	certainly bool
	classes   []*componentClass
	blocking  []*webhookClass
	// refusing lists the nodes of webhooks by the labels that they ask for, refused
	// those of components by the labels that they carry. Those that may refuse
	// anything, and all components, are at the label without a key.
	refusing, refused rosters
	// serves are for each class of components the nodes of the webhooks that it
	// serves.
	serves [][]int
	// seen are the nodes that the search under way has come to.
	seen []bool
	// cycleOf is the strongly connected component of each node: all that wait for
	// each other.
	cycleOf []int
}

// componentClass are the components that all webhooks treat alike.
type componentClass struct {
	components []*component
	requests   []admission.Request
	network    bool
	labels     []label
	// blocked is one of them that takes part in a cycle, and namespaces are those
	// of all that do.
	blocked    *component
	namespaces []string
}

// webhookClass are the webhooks that refuse the same.
type webhookClass struct {
	members []member
	// anchors are labels one of which everything that it refuses carries; none
	// where it may refuse anything.
	anchors []label
	// backends are the classes of what serves the members, each once.
	backends []int
	// entries are members that take part in a cycle, one for each of backends.
	entries []member
}

// member is a webhook by its place in what New was given, and what serves it. Among
// what every Pod needs it has no webhook.
type member struct {
	index   int
	webhook *Webhook
	own     *component
}

// New returns the Graph of the webhooks that could be kept from starting themselves.
// It costs a few requests for each class of webhooks and of Pods.
func New(step Step, m *admission.Matcher, webhooks []Webhook) *Graph {
	b := newBuilder(step, m)
	b.webhooks = len(webhooks)
	for i := range webhooks {
		if !b.tick() {
			break
		}
		if own := b.behind(webhooks[i].Service); len(own.pods.labels) > 0 && !own.pods.unknown {
			b.block(member{i, &webhooks[i], own})
		}
	}
	return b.graph()
}

// Err is why the Graph is not complete, beside the end of its context.
func (g *Graph) Err() error { return g.err }

func (g *Graph) tick() bool {
	g.steps++
	g.ended = g.ended || !g.step()
	return !g.ended
}

// roster lists nodes, and skips those that a search has seen.
type roster struct {
	nodes []int
	// skip is for each place the next one that may be unseen.
	skip []int
}

type rosters map[label]*roster

// add lists the node at its labels, or at the one without a key.
func (all rosters) add(node int, labels ...label) {
	if len(labels) == 0 {
		labels = []label{{}}
	}
	for _, l := range labels {
		if all[l] == nil {
			all[l] = &roster{}
		}
		all[l].nodes = append(all[l].nodes, node)
		all[l].skip = append(all[l].skip, len(all[l].nodes))
	}
}

func (all rosters) reset() {
	for _, r := range all {
		for i := range r.skip {
			r.skip[i] = i + 1
		}
	}
}

// next is the first place from i on whose node is not seen. It shortens the way
// for later calls, so that all of them together cost little more than one pass.
func (r *roster) next(i int, seen []bool) int {
	from := i
	for i < len(r.nodes) && seen[r.nodes[i]] {
		i = r.skip[i]
	}
	for from < i {
		from, r.skip[from] = r.skip[from], i
	}
	return i
}

func (g *Graph) makeRosters() {
	g.refusing, g.refused, g.serves = rosters{}, rosters{}, make([][]int, len(g.classes))
	for c, class := range g.classes {
		g.refused.add(c)
		if len(class.labels) > 0 {
			g.refused.add(c, class.labels...)
		}
	}
	for i, class := range g.blocking {
		g.refusing.add(g.nodeOf(i), class.anchors...)
		for _, c := range class.backends {
			g.serves[c] = append(g.serves[c], g.nodeOf(i))
		}
	}
}

func (g *Graph) nodeOf(blocking int) int { return len(g.classes) + blocking }

func (g *Graph) at(node int) *webhookClass { return g.blocking[node-len(g.classes)] }

// everyPod is the node of what every Pod needs.
func (g *Graph) everyPod() int { return g.nodeOf(len(g.blocking) - 1) }

// rostersOf list the nodes that a node could refuse, or be refused by.
func (g *Graph) rostersOf(node int) []*roster {
	all, labels, broad := g.refusing, []label(nil), true
	if node < len(g.classes) {
		labels = g.classes[node].labels
	} else {
		all, labels = g.refused, g.at(node).anchors
		broad = len(labels) == 0
	}
	var out []*roster
	if broad {
		labels = append([]label{{}}, labels...)
	}
	for _, l := range labels {
		if r := all[l]; r != nil {
			out = append(out, r)
		}
	}
	return out
}

// candidates are the nodes of all rostersOf the node.
func (g *Graph) candidates(node int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, r := range g.rostersOf(node) {
			for _, n := range r.nodes {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// refusal is what a webhook keeps a component from.
type refusal struct {
	resource inventory.Resource
	// certain is false where labels of the namespace that are not known decide.
	certain   bool
	namespace string
}

// refuses says what the webhooks of a node keep the components of a class from, if
// anything: what they certainly refuse before what they refuse unless a label
// that is not known exempts the namespace.
func (g *Graph) refuses(node, class int) (found refusal, refuses bool) {
	if node == g.everyPod() {
		return refusal{certain: true}, g.tick() && g.classes[class].network
	}
	webhook := g.at(node).members[0].webhook
	for _, r := range g.classes[class].requests {
		if !g.tick() {
			return refusal{}, false
		}
		switch v := r.Match(webhook.Webhook); {
		case v.Match == admission.Yes:
			return refusal{r.Resource, true, r.Namespace}, true
		case !refuses && v.Presumed():
			found, refuses = refusal{r.Resource, false, r.Namespace}, true
		}
	}
	return found, refuses && !g.certainly
}

// waitsFor visits the unseen nodes that the node waits for.
func (g *Graph) waitsFor(node int, visit func(int)) {
	if node < len(g.classes) {
		g.refusals(node, visit)
		return
	}
	for _, class := range g.at(node).backends {
		visit(class)
	}
}

// waitedForBy visits the unseen nodes that wait for the node.
func (g *Graph) waitedForBy(node int, visit func(int)) {
	if node >= len(g.classes) {
		g.refusals(node, visit)
		return
	}
	for _, webhooks := range g.serves[node] {
		visit(webhooks)
	}
}

// refusals visits the unseen nodes that refuse the node, or that it refuses.
func (g *Graph) refusals(node int, visit func(int)) {
	for _, r := range g.rostersOf(node) {
		for i := r.next(0, g.seen); i < len(r.nodes) && !g.ended; i = r.next(i+1, g.seen) {
			if _, ok := g.refuses(max(node, r.nodes[i]), min(node, r.nodes[i])); ok {
				visit(r.nodes[i])
			}
		}
	}
}

// walk goes through the unseen nodes from one on and calls done with each after
// all that it leads to.
func (g *Graph) walk(node int, next func(int, func(int)), done func(int)) {
	if g.seen[node] || g.ended {
		return
	}
	g.seen[node] = true
	next(node, func(n int) { g.walk(n, next, done) })
	done(node)
}

// connect finds what waits for each other, by Kosaraju's algorithm: unlike Tarjan's,
// it never looks again at a node that it has seen, so that not every pair of classes
// has to be compared.
func (g *Graph) connect() {
	n := g.everyPod() + 1
	order := make([]int, 0, n)
	g.restart()
	for node := range n {
		g.walk(node, g.waitsFor, func(done int) { order = append(order, done) })
	}
	g.restart()
	g.cycleOf = make([]int, n)
	for _, node := range slices.Backward(order) {
		g.walk(node, g.waitedForBy, func(done int) { g.cycleOf[done] = node })
	}
}

// restart forgets what was seen.
func (g *Graph) restart() {
	g.seen = make([]bool, g.everyPod()+1)
	g.refusing.reset()
	g.refused.reset()
}
