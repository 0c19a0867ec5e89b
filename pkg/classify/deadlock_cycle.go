package classify

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// The bounds of what is reported of one webhook.
const (
	// maxExcluded is the number of namespaces that a fix excludes; a namespace
	// with a webhook in it that needs to be excluded is rare, more of them are a
	// matter for a label.
	maxExcluded = 16
	// maxSearchSteps is the number of steps spent on the shortest cycle. One
	// that takes longer is reported by its first and last step.
	maxSearchSteps = 400
)

// cycle is all that keeps each other from starting.
type cycle struct {
	// webhooks counts them.
	webhooks int
	// classes are those of what is kept from starting, in a stable order.
	classes []int
	// components are one of each class, and namespaces all that they are in.
	components map[int]*component
	namespaces map[int][]string
	known      map[placedIn]bool
	// first is for each class one step of a cycle.
	first map[int]wait
}

// placedIn is a class in a namespace.
type placedIn struct {
	class     int
	namespace string
}

func newCycle() *cycle {
	return &cycle{components: map[int]*component{}, namespaces: map[int][]string{}, known: map[placedIn]bool{}, first: map[int]wait{}}
}

// add adds what is kept from starting.
func (c *cycle) add(p *component) {
	if c.components[p.class] == nil {
		c.classes = append(c.classes, p.class)
		c.components[p.class] = p
	}
	if in := (placedIn{p.class, p.namespace}); !c.known[in] {
		c.known[in] = true
		c.namespaces[p.class] = append(c.namespaces[p.class], p.namespace)
	}
}

// deadlocks are the cycles that the refusals which count make, for each webhook
// that takes part in one.
func (g *startGraph) deadlocks(counts func(dependency) bool) map[*blockingWebhook]*Deadlock {
	g.counts = counts
	out := map[*blockingWebhook]*Deadlock{}
	if g.connect(); g.work.ended {
		return out
	}
	cycles := g.cycles()
	for i, class := range g.blocking {
		c := cycles[g.cycleOf[g.nodeOf(i)]]
		if c == nil {
			continue
		}
		if g.work.ended {
			break
		}
		common := g.refusalsIn(g.nodeOf(i), c)
		for _, b := range class.members {
			if g.takesPart(i, b) && !g.work.ended {
				out[b] = g.deadlock(g.nodeOf(i), b, c, common)
			}
		}
	}
	return out
}

// takesPart reports whether what serves the webhook waits for what it refuses:
// the two are connected both ways.
func (g *startGraph) takesPart(class int, b *blockingWebhook) bool {
	return g.cycleOf[g.nodeOf(class)] == g.cycleOf[b.own.class]
}

// cycles are the components in which webhooks take part.
func (g *startGraph) cycles() map[int]*cycle {
	out := map[int]*cycle{}
	for i, class := range g.blocking {
		class.entries = nil
		entered := map[int]bool{}
		for _, b := range class.members {
			if !g.takesPart(i, b) {
				continue
			}
			k := g.cycleOf[b.own.class]
			if out[k] == nil {
				out[k] = newCycle()
			}
			out[k].webhooks++
			out[k].add(b.own)
			if !entered[b.own.class] {
				entered[b.own.class] = true
				class.entries = append(class.entries, b)
			}
		}
	}
	every := g.cycleOf[g.everyPod()]
	for _, p := range g.nodes {
		if c := out[every]; c != nil && g.cycleOf[p.class] == every {
			c.add(p)
		}
	}
	return out
}

// refusals are what the webhooks of a class refuse of a cycle.
type refusals struct {
	namespaces []string
	more       bool
	resources  []inventory.Resource
	// component is one that they refuse, and dependency what of it.
	component  *component
	dependency dependency
}

// refusalsIn collects the namespaces in which the webhooks of a node refuse
// components of the cycle, up to a bound.
func (g *startGraph) refusalsIn(node int, c *cycle) refusals {
	var out refusals
	for _, class := range g.candidates(node, c) {
		p := c.components[class]
		if p == nil || g.cycleOf[class] != g.cycleOf[node] {
			continue
		}
		refused, ok := g.refuses(node, class)
		if !ok {
			continue
		}
		if out.component == nil {
			out.component, out.dependency = p, refused
		}
		out.resources = appendMissing(out.resources, refused.request.Resource)
		for _, namespace := range c.namespaces[class] {
			if len(out.namespaces) == maxExcluded && !slices.Contains(out.namespaces, namespace) {
				out.more = true
				return out
			}
			out.namespaces = appendMissing(out.namespaces, namespace)
		}
	}
	return out
}

// candidates are the classes that the webhooks of a node could refuse.
func (g *startGraph) candidates(node int, c *cycle) []int {
	anchors := g.blocking[node-len(g.classes)].anchors
	if len(anchors) == 0 {
		return c.classes
	}
	var out []int
	for _, l := range anchors {
		if r := g.carrying[l]; r != nil {
			out = append(out, r.nodes...)
		}
	}
	return out
}

func appendMissing[T comparable](list []T, value T) []T {
	if slices.Contains(list, value) {
		return list
	}
	return append(list, value)
}

// deadlock describes how the webhook takes part in the cycle.
func (g *startGraph) deadlock(node int, b *blockingWebhook, c *cycle, common refusals) *Deadlock {
	d := &Deadlock{Webhooks: c.webhooks, Namespaces: slices.Clone(common.namespaces), More: common.more, Resources: slices.Clone(common.resources)}
	if refused, own := g.refuses(node, b.own.class); own {
		d.Steps = []string{b.last(b.own, refused)}
		d.Namespaces = appendMissing(d.Namespaces, b.own.namespace)
		d.Resources = appendMissing(d.Resources, refused.request.Resource)
	} else if d.Steps = g.shortestCycle(node, b); d.Steps == nil && !g.work.ended && common.component != nil {
		d.Steps = []string{
			g.firstWait(b.own, c).String(),
			fmt.Sprintf("and so on, through %d webhooks", c.webhooks),
			b.last(common.component, common.dependency),
		}
	}
	slices.Sort(d.Namespaces)
	return d
}

// last is the last step of a cycle: what the webhook itself refuses.
func (b *blockingWebhook) last(p *component, refused dependency) string {
	itself := ""
	if p == b.own {
		itself = ", which serves it"
	}
	return fmt.Sprintf("this webhook refuses %s %s%s%s", refused.what, p.name, itself, refused.unless(b.profile))
}

// wait is a component that waits for another.
type wait struct {
	from, on *component
	// because is the webhook that makes it wait, by refusing what; nil where every
	// Pod needs the other component.
	because *blockingWebhook
	refused dependency
}

// String says why the one waits for the other.
func (h wait) String() string {
	if h.because == nil {
		return fmt.Sprintf("the Pods of %s need %s %s", h.from.name, h.on.name, h.on.use)
	}
	w := h.because.profile
	return fmt.Sprintf("webhook %s of %s, which %s serves, refuses %s %s%s", w.Name, w.Configuration, h.on.name, h.refused.what, h.from.name, h.refused.unless(w))
}

// shortestCycle finds the shortest way from what serves the webhook to what it
// refuses; nil where that takes too long.
func (g *startGraph) shortestCycle(node int, b *blockingWebhook) []string {
	until := g.work.steps + maxSearchSteps
	via := map[*component]wait{b.own: {}}
	visited := map[int]bool{b.own.class: true}
	for queue := []*component{b.own}; len(queue) > 0; queue = queue[1:] {
		for h := range g.waits(queue[0], until) {
			if visited[h.on.class] {
				continue
			}
			visited[h.on.class] = true
			via[h.on] = h
			if refused, ok := g.refuses(node, h.on.class); ok {
				return append(steps(via, h.on), b.last(h.on, refused))
			}
			queue = append(queue, h.on)
		}
	}
	return nil
}

// steps are the waits that lead to the component.
func steps(via map[*component]wait, p *component) []string {
	var out []string
	for h := via[p]; h.from != nil; h = via[h.from] {
		out = append(out, h.String())
	}
	slices.Reverse(out)
	return out
}

// waits are what the component waits for in its cycle, one of each class, until that
// many steps are done.
func (g *startGraph) waits(p *component, until int) iter.Seq[wait] {
	return func(yield func(wait) bool) {
		for _, r := range g.refusersOf(p.class) {
			if r != nil && !g.waitsOn(r.nodes, p, until, yield) {
				return
			}
		}
		if !p.pods.network || g.cycleOf[g.everyPod()] != g.cycleOf[p.class] {
			return
		}
		for _, n := range g.nodes {
			if g.work.steps >= until || !g.work.step() || !yield(wait{from: p, on: n}) {
				return
			}
		}
	}
}

// waitsOn yields those that webhooks of the nodes make; false says that it is to
// stop.
func (g *startGraph) waitsOn(nodes []int, p *component, until int, yield func(wait) bool) bool {
	for _, node := range nodes {
		if g.work.steps >= until || !g.work.step() {
			return false
		}
		if g.cycleOf[node] != g.cycleOf[p.class] {
			continue
		}
		refused, ok := g.refuses(node, p.class)
		if !ok {
			continue
		}
		for _, b := range g.blocking[node-len(g.classes)].entries {
			if g.work.steps >= until || !g.work.step() || !yield(wait{p, b.own, b, refused}) {
				return false
			}
		}
	}
	return true
}

// firstWait is some wait of the component, which has one.
func (g *startGraph) firstWait(p *component, c *cycle) wait {
	found, known := c.first[p.class]
	if !known {
		for h := range g.waits(p, math.MaxInt) {
			found = h
			break
		}
		c.first[p.class] = found
	}
	found.from = p
	return found
}
