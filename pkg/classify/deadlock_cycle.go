package classify

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// The bounds of what is told of one webhook.
const (
	// maxLeftAlone is the number of namespaces that a fix excludes; a namespace
	// with a webhook in it that needs to be excluded is rare, more of them are a
	// matter for a label.
	maxLeftAlone = 16
	// maxAsked is the number of steps spent on the shortest way round. A cycle
	// that takes longer is told by its ends.
	maxAsked = 400
)

// cycle is all that keeps each other from starting.
type cycle struct {
	// webhooks counts them.
	webhooks int
	// classes are those of what is kept from starting, in a stable order.
	classes []int
	// parts are one of each class, and namespaces all that they are in.
	parts      map[int]*part
	namespaces map[int][]string
	known      map[placedIn]bool
	// first is for a class a first step of a way round.
	first map[int]hop
}

// placedIn is a class in a namespace.
type placedIn struct {
	class     int
	namespace string
}

func newCycle() *cycle {
	return &cycle{parts: map[int]*part{}, namespaces: map[int][]string{}, known: map[placedIn]bool{}, first: map[int]hop{}}
}

// add adds what is kept from starting.
func (c *cycle) add(p *part) {
	if c.parts[p.class] == nil {
		c.classes = append(c.classes, p.class)
		c.parts[p.class] = p
	}
	if in := (placedIn{p.class, p.namespace}); !c.known[in] {
		c.known[in] = true
		c.namespaces[p.class] = append(c.namespaces[p.class], p.namespace)
	}
}

// deadlocks are the cycles that the refusals which count make, for each webhook
// that takes part in one.
func (g *startGraph) deadlocks(counts func(need) bool) map[*blocker]*Deadlock {
	g.counts = counts
	out := map[*blocker]*Deadlock{}
	if g.connect(); g.work.ended {
		return out
	}
	cycles := g.cycles()
	for i, class := range g.blockers {
		c := cycles[g.component[g.nodeOf(i)]]
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
func (g *startGraph) takesPart(class int, b *blocker) bool {
	return g.component[g.nodeOf(class)] == g.component[b.own.class]
}

// cycles are the components in which webhooks take part.
func (g *startGraph) cycles() map[int]*cycle {
	out := map[int]*cycle{}
	for i, class := range g.blockers {
		class.entries = nil
		entered := map[int]bool{}
		for _, b := range class.members {
			if !g.takesPart(i, b) {
				continue
			}
			k := g.component[b.own.class]
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
	every := g.component[g.everyPod()]
	for _, p := range g.nodes {
		if c := out[every]; c != nil && g.component[p.class] == every {
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
	// part is one that they refuse, and need what of it.
	part *part
	need need
}

// refusalsIn collects the namespaces in which the webhooks of a node refuse parts
// of the cycle, up to a bound.
func (g *startGraph) refusalsIn(node int, c *cycle) refusals {
	var out refusals
	for _, class := range g.candidates(node, c) {
		p := c.parts[class]
		if p == nil || g.component[class] != g.component[node] {
			continue
		}
		refused, ok := g.refuses(node, class)
		if !ok {
			continue
		}
		if out.part == nil {
			out.part, out.need = p, refused
		}
		out.resources = appendMissing(out.resources, refused.request.Resource)
		for _, namespace := range c.namespaces[class] {
			if len(out.namespaces) == maxLeftAlone && !slices.Contains(out.namespaces, namespace) {
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
	anchors := g.blockers[node-len(g.classes)].anchors
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

// deadlock tells how the webhook takes part in the cycle.
func (g *startGraph) deadlock(node int, b *blocker, c *cycle, common refusals) *Deadlock {
	d := &Deadlock{Webhooks: c.webhooks, Namespaces: slices.Clone(common.namespaces), More: common.more, Resources: slices.Clone(common.resources)}
	if refused, own := g.refuses(node, b.own.class); own {
		d.Steps = []string{b.last(b.own, refused)}
		d.Namespaces = appendMissing(d.Namespaces, b.own.namespace)
		d.Resources = appendMissing(d.Resources, refused.request.Resource)
	} else if d.Steps = g.wayRound(node, b); d.Steps == nil && !g.work.ended && common.part != nil {
		d.Steps = []string{
			g.firstHop(b.own, c).String(),
			fmt.Sprintf("and so on, through %d webhooks", c.webhooks),
			b.last(common.part, common.need),
		}
	}
	slices.Sort(d.Namespaces)
	return d
}

// last is the last step of a way round: what the webhook itself refuses.
func (b *blocker) last(p *part, refused need) string {
	itself := ""
	if p == b.own {
		itself = ", which serves it"
	}
	return fmt.Sprintf("this webhook refuses %s %s%s%s", refused.what, p.name, itself, refused.unless(b.profile))
}

// hop is a part that waits for another.
type hop struct {
	from, part *part
	// because is the webhook that makes it wait, by refusing what; nil where every
	// Pod needs the other part.
	because *blocker
	refused need
}

// String says why the one waits for the other.
func (h hop) String() string {
	if h.because == nil {
		return fmt.Sprintf("the Pods of %s need %s %s", h.from.name, h.part.name, h.part.use)
	}
	w := h.because.profile
	return fmt.Sprintf("webhook %s of %s, which %s serves, refuses %s %s%s", w.Name, w.Configuration, h.part.name, h.refused.what, h.from.name, h.refused.unless(w))
}

// wayRound finds the shortest way from what serves the webhook to what it
// refuses; nil where that takes too long.
func (g *startGraph) wayRound(node int, b *blocker) []string {
	until := g.work.steps + maxAsked
	via := map[*part]hop{b.own: {}}
	come := map[int]bool{b.own.class: true}
	for queue := []*part{b.own}; len(queue) > 0; queue = queue[1:] {
		for h := range g.hops(queue[0], until) {
			if come[h.part.class] {
				continue
			}
			come[h.part.class] = true
			via[h.part] = h
			if refused, ok := g.refuses(node, h.part.class); ok {
				return append(steps(via, h.part), b.last(h.part, refused))
			}
			queue = append(queue, h.part)
		}
	}
	return nil
}

// steps are the hops that led to the part.
func steps(via map[*part]hop, p *part) []string {
	var out []string
	for h := via[p]; h.from != nil; h = via[h.from] {
		out = append(out, h.String())
	}
	slices.Reverse(out)
	return out
}

// hops are what the part waits for in its cycle, one of each class, until that
// many steps are done.
func (g *startGraph) hops(p *part, until int) iter.Seq[hop] {
	return func(yield func(hop) bool) {
		for _, r := range g.blockersOf(p.class) {
			if r != nil && !g.hopsTo(r.nodes, p, until, yield) {
				return
			}
		}
		if !p.pods.network || g.component[g.everyPod()] != g.component[p.class] {
			return
		}
		for _, n := range g.nodes {
			if g.work.steps >= until || !g.work.step() || !yield(hop{from: p, part: n}) {
				return
			}
		}
	}
}

// hopsTo yields those that webhooks of the nodes make; false says that it is to
// stop.
func (g *startGraph) hopsTo(nodes []int, p *part, until int, yield func(hop) bool) bool {
	for _, node := range nodes {
		if g.work.steps >= until || !g.work.step() {
			return false
		}
		if g.component[node] != g.component[p.class] {
			continue
		}
		refused, ok := g.refuses(node, p.class)
		if !ok {
			continue
		}
		for _, b := range g.blockers[node-len(g.classes)].entries {
			if g.work.steps >= until || !g.work.step() || !yield(hop{p, b.own, b, refused}) {
				return false
			}
		}
	}
	return true
}

// firstHop is some hop from the part, which has one.
func (g *startGraph) firstHop(p *part, c *cycle) hop {
	found, known := c.first[p.class]
	if !known {
		for h := range g.hops(p, math.MaxInt) {
			found = h
			break
		}
		c.first[p.class] = found
	}
	found.from = p
	return found
}
