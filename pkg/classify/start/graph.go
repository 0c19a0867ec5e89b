package start

import (
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Graph is what waits for what to start. Its nodes are classes, because thousands
// of webhooks differ in little. A class of components waits for the classes of webhooks
// that refuse what it needs, and those for what serves them. The last class of
// webhooks stands for what every Pod needs.
type Graph struct {
	step    Step
	ended   bool
	err     error
	matcher *admission.Matcher
	// webhooks counts those that New was given.
	webhooks int
	classes  []*componentClass
	blocking []*webhookClass
	// compared counts the pairs of classes that were compared.
	compared int
}

// componentClass are the components that all webhooks treat alike.
type componentClass struct {
	components []*component
	requests   []admission.Request
	network    bool
	// refused are the classes of webhooks that refuse what it needs.
	refused []refusal
}

// webhookClass are the webhooks that refuse the same.
type webhookClass struct {
	members []member
	// backends are the classes of what serves the members, each once.
	backends []int
	// refuses are the classes of components that they refuse something.
	refuses []refusal
}

// member is a webhook by its place in what New was given, and what serves it. Among
// what every Pod needs it has no webhook.
type member struct {
	index   int
	webhook *Webhook
	own     *component
}

// refusal is what the webhooks of a class keep the components of a class from.
type refusal struct {
	webhooks, class int
	resource        inventory.Resource
	// certain is false where labels of the namespace that are not known decide.
	certain   bool
	namespace string
}

// New returns the Graph of the webhooks that could be kept from starting themselves.
// It costs a few requests for each pair of classes that it compares.
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

// Err is why the Graph is not complete, beside the end of its context and
// NotCompared.
func (g *Graph) Err() error { return g.err }

// Kinds counts the webhooks that differ, and the Pods.
func (g *Graph) Kinds() (webhooks, pods int) { return g.everyPod(), len(g.classes) }

// NotCompared counts the pairs of kinds of webhooks and of Pods that are too many to be
// compared. Each webhook is compared with its own Pods in any case.
func (g *Graph) NotCompared() int { return max(0, len(g.classes)*g.everyPod()-g.compared) }

func (g *Graph) tick() bool {
	g.ended = g.ended || !g.step()
	return !g.ended
}

// everyPod is the class of what every Pod needs.
func (g *Graph) everyPod() int { return len(g.blocking) - 1 }

// maxCompared bounds the pairs of classes that are compared: a hundred and seventy kinds
// of webhooks with as many kinds of Pods. That takes a fraction of a second.
const maxCompared = 30_000

// compare finds what refuses what: of each webhook its own Pods first.
func (g *Graph) compare() {
	type pair struct{ webhooks, class int }
	done := map[pair]bool{}
	ask := func(p pair) {
		if !done[p] && g.tick() {
			done[p] = true
			g.compared++
			g.addRefusal(p.webhooks, p.class)
		}
	}
	for i, class := range g.blocking[:g.everyPod()] {
		for _, own := range class.backends {
			ask(pair{i, own})
		}
	}
	for c, class := range g.classes {
		for i := 0; i < g.everyPod() && len(done) < maxCompared && !g.ended; i++ {
			ask(pair{i, c})
		}
		if class.network && len(g.blocking[g.everyPod()].members) > 0 {
			g.add(refusal{webhooks: g.everyPod(), class: c, certain: true})
		}
	}
}

func (g *Graph) add(r refusal) {
	g.classes[r.class].refused = append(g.classes[r.class].refused, r)
	g.blocking[r.webhooks].refuses = append(g.blocking[r.webhooks].refuses, r)
}

// addRefusal adds what the webhooks keep the components from, if anything: what they
// certainly refuse before what they refuse unless a label that is not known exempts
// the namespace.
func (g *Graph) addRefusal(webhooks, class int) {
	var found *refusal
	webhook := g.blocking[webhooks].members[0].webhook
	for _, r := range g.classes[class].requests {
		if !g.tick() {
			return
		}
		v := r.Match(webhook.Webhook)
		if certain := v.Match == admission.Yes; certain || found == nil && v.Presumed() {
			found = &refusal{webhooks, class, r.Resource, certain, r.Namespace}
		}
		if found != nil && found.certain {
			break
		}
	}
	if found != nil {
		g.add(*found)
	}
}

// components numbers the nodes of each strongly connected component: all that wait for
// each other by refusals that count. The nodes are the classes of components, then those
// of webhooks. It is Kosaraju's algorithm.
func (g *Graph) components(counts func(refusal) bool) []int {
	n := len(g.classes) + len(g.blocking)
	next, before := make([][]int, n), make([][]int, n)
	add := func(from, to int) { next[from], before[to] = append(next[from], to), append(before[to], from) }
	for i, class := range g.blocking {
		for _, own := range class.backends {
			add(len(g.classes)+i, own)
		}
		for _, r := range class.refuses {
			if counts(r) {
				add(r.class, len(g.classes)+i)
			}
		}
	}
	there, back := walk{next: next, marks: make([]int, n)}, walk{next: before, marks: make([]int, n)}
	for node := range n {
		there.visit(node, 1)
	}
	for i, node := range slices.Backward(there.done) {
		back.visit(node, i+1)
	}
	return back.marks
}

// walk goes through all that a node leads to and that is not marked yet.
type walk struct {
	next  [][]int
	marks []int
	// done are the nodes after all that they lead to.
	done []int
}

func (w *walk) visit(node, mark int) {
	if w.marks[node] != 0 {
		return
	}
	w.marks[node] = mark
	for _, n := range w.next[node] {
		w.visit(n, mark)
	}
	w.done = append(w.done, node)
}
