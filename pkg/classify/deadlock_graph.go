package classify

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// startGraph is what waits for what to start. Its nodes are classes, because
// thousands of webhooks differ in little: startClasses, blockingClasses and one
// node for what every Pod needs. A class of components waits for the classes of
// webhooks that refuse what it needs, and those wait for the Pods that serve
// them. Whether one refuses the other is computed only where the answer can be new, so
// that finding all cycles costs one Match for each class rather than for each pair
// of them, unless most pairs have nothing to do with each other and no label
// shows it.
type startGraph struct {
	work *work
	// counts says which refusals count: all, or those that are certain.
	counts   func(dependency) bool
	classes  []*startClass
	blocking []*blockingClass
	// nodes are the components that every Pod needs.
	nodes []*component
	// broad are the webhooks that may refuse anything, and requiring those that
	// refuse only what carries the label.
	broad     *roster
	requiring map[label]*roster
	// all are the classes of components, and carrying those with the label.
	all      *roster
	carrying map[label]*roster
	// seen are the nodes that the search under way has come to.
	seen []bool
	// cycleOf is the strongly connected component of each node: all that wait for
	// each other.
	cycleOf []int
}

// startClass are the components that all webhooks treat alike.
type startClass struct {
	components   []*component
	dependencies []dependency
	network      bool
	labels       []label
}

// blockingClass are the webhooks that refuse the same.
type blockingClass struct {
	members []*blockingWebhook
	// anchors are labels one of which everything that it refuses carries; none
	// where it may refuse anything.
	anchors []label
	// backends are the classes of what serves the members, each once.
	backends []int
	// entries are members that take part in a cycle, one for each of backends.
	entries []*blockingWebhook
}

// label is a label of a namespace or of an object.
type label struct {
	of         labelHolder
	key, value string
}

type labelHolder byte

const (
	ofNamespace labelHolder = 'n'
	ofObject    labelHolder = 'o'
)

// roster lists nodes, and skips those that a search has seen.
type roster struct {
	nodes []int
	// skip is for each place the next one that may be unseen.
	skip []int
}

func (r *roster) add(node int) {
	r.nodes = append(r.nodes, node)
	r.skip = append(r.skip, len(r.nodes))
}

func (r *roster) reset() {
	for i := range r.skip {
		r.skip[i] = i + 1
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

// unseen calls visit with each node that is not seen when its turn comes, until
// visit returns false.
func (r *roster) unseen(seen []bool, visit func(node int) bool) {
	if r == nil {
		return
	}
	for i := r.next(0, seen); i < len(r.nodes) && visit(r.nodes[i]); i = r.next(i+1, seen) {
	}
}

// anchorsOf are the labels one of which a request must carry for the webhook to
// be called: the values of its most selective requirement.
func anchorsOf(p *Profile) []label {
	var best []label
	for _, s := range []struct {
		of     labelHolder
		parsed labels.Selector
		err    error
	}{{ofNamespace, p.NamespaceSelector.Parsed, p.NamespaceSelector.Err}, {ofObject, p.ObjectSelector.Parsed, p.ObjectSelector.Err}} {
		if s.err != nil || s.parsed == nil {
			continue
		}
		requirements, _ := s.parsed.Requirements()
		for _, r := range requirements {
			if !oneOf(r.Operator()) || best != nil && len(r.ValuesUnsorted()) >= len(best) {
				continue
			}
			best = nil
			for _, value := range r.ValuesUnsorted() {
				best = append(best, label{s.of, r.Key(), value})
			}
		}
	}
	return best
}

// oneOf reports whether the operator demands one of the values.
func oneOf(o selection.Operator) bool {
	return o == selection.In || o == selection.Equals || o == selection.DoubleEquals
}

// index makes the rosters.
func (g *startGraph) index() {
	g.broad, g.requiring, g.all, g.carrying = &roster{}, map[label]*roster{}, &roster{}, map[label]*roster{}
	for c, class := range g.classes {
		g.all.add(c)
		for _, l := range class.labels {
			addTo(g.carrying, l, c)
		}
	}
	for b, class := range g.blocking {
		node := g.nodeOf(b)
		if len(class.anchors) == 0 {
			g.broad.add(node)
		}
		for _, l := range class.anchors {
			addTo(g.requiring, l, node)
		}
	}
}

func addTo(rosters map[label]*roster, l label, node int) {
	if rosters[l] == nil {
		rosters[l] = &roster{}
	}
	rosters[l].add(node)
}

// Nodes are numbered: the classes of components, then those of webhooks, then the one
// for what every Pod needs.
func (g *startGraph) nodeOf(class int) int { return len(g.classes) + class }

func (g *startGraph) everyPod() int { return len(g.classes) + len(g.blocking) }

// refuses says what the webhooks of a node keep the components of a class from, if
// anything: what they certainly refuse before what they refuse unless a label
// that is not known exempts the namespace.
func (g *startGraph) refuses(node, class int) (refused dependency, refuses bool) {
	webhook := g.blocking[node-len(g.classes)].members[0].profile
	for _, n := range g.classes[class].dependencies {
		if !g.work.step() {
			return dependency{}, false
		}
		n.verdict = n.request.Match(webhook.Webhook)
		switch {
		case n.certain():
			return n, true
		case !refuses && presumed(n.verdict):
			refused, refuses = n, true
		}
	}
	return refused, refuses && g.counts(refused)
}

// waitsFor visits the unseen nodes that the node waits for.
func (g *startGraph) waitsFor(node int, visit func(int)) {
	switch {
	case node == g.everyPod():
		for _, p := range g.nodes {
			visit(p.class)
		}
	case node >= len(g.classes):
		for _, class := range g.blocking[node-len(g.classes)].backends {
			visit(class)
		}
	default:
		for _, r := range g.refusersOf(node) {
			r.unseen(g.seen, func(webhook int) bool {
				if _, refused := g.refuses(webhook, node); refused {
					visit(webhook)
				}
				return !g.work.ended
			})
		}
		if g.classes[node].network {
			visit(g.everyPod())
		}
	}
}

// refusersOf are the rosters of the webhooks that could refuse what a class of
// components needs.
func (g *startGraph) refusersOf(class int) []*roster {
	out := []*roster{g.broad}
	for _, l := range g.classes[class].labels {
		out = append(out, g.requiring[l])
	}
	return out
}

// classesOf are the rosters of the components that the webhooks of a node could
// refuse.
func (g *startGraph) classesOf(node int) []*roster {
	anchors := g.blocking[node-len(g.classes)].anchors
	if len(anchors) == 0 {
		return []*roster{g.all}
	}
	var out []*roster
	for _, l := range anchors {
		out = append(out, g.carrying[l])
	}
	return out
}

// waitedForBy visits the unseen nodes that wait for the node.
func (g *startGraph) waitedForBy(servers [][]int) func(int, func(int)) {
	hasNode := map[int]bool{}
	for _, p := range g.nodes {
		hasNode[p.class] = true
	}
	return func(node int, visit func(int)) {
		switch {
		case node == g.everyPod():
			for c, class := range g.classes {
				if class.network {
					visit(c)
				}
			}
		case node >= len(g.classes):
			for _, r := range g.classesOf(node) {
				r.unseen(g.seen, func(class int) bool {
					if _, refused := g.refuses(node, class); refused {
						visit(class)
					}
					return !g.work.ended
				})
			}
		default:
			for _, webhook := range servers[node] {
				visit(webhook)
			}
			if hasNode[node] {
				visit(g.everyPod())
			}
		}
	}
}

// servedBy are for each class of components the nodes of the webhooks that it serves.
func (g *startGraph) servedBy() [][]int {
	out := make([][]int, len(g.classes))
	for b, blocking := range g.blocking {
		for _, class := range blocking.backends {
			out[class] = append(out[class], g.nodeOf(b))
		}
	}
	return out
}

// walk goes through the unseen nodes from one on and calls done with each after
// all that it leads to.
func (g *startGraph) walk(node int, next func(int, func(int)), done func(int)) {
	g.seen[node] = true
	next(node, func(n int) {
		if !g.seen[n] && !g.work.ended {
			g.walk(n, next, done)
		}
	})
	done(node)
}

// connect finds the components, by Kosaraju's algorithm: unlike Tarjan's, it
// never looks again at a node that it has seen, so that not every
// pair of classes has to be compared.
func (g *startGraph) connect() {
	n := g.everyPod() + 1
	order := make([]int, 0, n)
	g.restart()
	for node := range n {
		if !g.seen[node] && !g.work.ended {
			g.walk(node, g.waitsFor, func(done int) { order = append(order, done) })
		}
	}
	g.restart()
	g.cycleOf = make([]int, n)
	before := g.waitedForBy(g.servedBy())
	for _, node := range slices.Backward(order) {
		if !g.seen[node] && !g.work.ended {
			g.walk(node, before, func(done int) { g.cycleOf[done] = node })
		}
	}
}

// restart forgets what was seen.
func (g *startGraph) restart() {
	g.seen = make([]bool, g.everyPod()+1)
	g.broad.reset()
	g.all.reset()
	for _, rosters := range []map[label]*roster{g.requiring, g.carrying} {
		for _, r := range rosters {
			r.reset()
		}
	}
}
