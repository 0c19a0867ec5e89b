package start

import (
	"iter"
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

// Deadlock is a cycle of what needs what to start.
type Deadlock struct {
	// Waits lead from what serves the webhook to what the webhook refuses, which
	// the last is.
	Waits []Wait
	// Abridged says that only the first and the last of Waits are there.
	Abridged bool
	// Certain says that the cycle does not depend on labels that are not known.
	Certain bool
	// Namespaces are those that the webhook must leave alone to break all
	// cycles that lead through it, Resources what it refuses there.
	Namespaces []string
	Resources  []inventory.Resource
	// More says that there are more Namespaces than are listed.
	More bool
	// Webhooks counts those that keep each other from starting, this one
	// included.
	Webhooks int
}

// Wait says that one component waits for another. Both complete "the Pods of …".
type Wait struct {
	From, On string
	// Own says that From is what serves the webhook of the Deadlock.
	Own bool
	// Webhook makes From wait, by refusing What, which From completes; it is nil
	// where every Pod needs the other component, and Use says for what.
	Webhook   *inventory.Webhook
	What, Use string
	// Unless is the namespace that labels may exempt that are not known, "" where
	// none may.
	Unless string
}

// cycle is all that keeps each other from starting.
type cycle struct {
	// webhooks counts them, and classes are those of what serves them, in a stable
	// order.
	webhooks int
	classes  []int
}

// Deadlocks are the cycles of each of New's webhooks, nil for one that takes part in
// none. Where one is certain, it is reported rather than a possible one.
func (g *Graph) Deadlocks() []*Deadlock {
	out, certain := make([]*Deadlock, g.webhooks), make([]*Deadlock, g.webhooks)
	if g.ended || !g.deadlocks(out) || g.ended {
		return out
	}
	g.certainly = true
	g.deadlocks(certain)
	g.certainly = false
	for i, sure := range certain {
		if sure != nil {
			sure.Certain = true
			sure.Namespaces, sure.More = out[i].Namespaces, out[i].More
			out[i] = sure
		}
	}
	return out
}

// deadlocks fills in the cycles by the refusals that count.
func (g *Graph) deadlocks(out []*Deadlock) (found bool) {
	if g.connect(); g.ended {
		return false
	}
	cycles := g.cycles()
	for i, class := range g.blocking[:len(g.blocking)-1] {
		c := cycles[g.cycleOf[g.nodeOf(i)]]
		if c == nil {
			continue
		}
		common := g.refusalsIn(g.nodeOf(i), c)
		for _, m := range class.members {
			if g.takesPart(i, m) && !g.ended {
				out[m.index] = g.deadlock(g.nodeOf(i), m, c, common)
				found = true
			}
		}
	}
	return found
}

// takesPart reports whether what serves the webhook waits for what it refuses:
// the two are connected both ways.
func (g *Graph) takesPart(class int, m member) bool {
	return g.cycleOf[g.nodeOf(class)] == g.cycleOf[m.own.class]
}

// cycles are those in which webhooks take part.
func (g *Graph) cycles() map[int]*cycle {
	type classIn struct {
		class     int
		namespace string
	}
	out, known := map[int]*cycle{}, map[classIn]bool{}
	for _, class := range g.classes {
		class.blocked, class.namespaces = nil, nil
	}
	for i, class := range g.blocking {
		class.entries = nil
		entered := map[int]bool{}
		for _, m := range class.members {
			if !g.takesPart(i, m) {
				continue
			}
			own := g.classes[m.own.class]
			c := out[g.cycleOf[m.own.class]]
			if c == nil {
				c = &cycle{}
				out[g.cycleOf[m.own.class]] = c
			}
			if own.blocked == nil {
				own.blocked = m.own
				c.classes = append(c.classes, m.own.class)
			}
			if in := (classIn{m.own.class, m.own.namespace}); !known[in] {
				known[in] = true
				own.namespaces = append(own.namespaces, m.own.namespace)
			}
			if m.webhook != nil {
				c.webhooks++
			}
			if !entered[m.own.class] {
				entered[m.own.class] = true
				class.entries = append(class.entries, m)
			}
		}
	}
	return out
}

// refusals are what the webhooks of a class refuse of a cycle.
type refusals struct {
	namespaces []string
	more       bool
	resources  []inventory.Resource
	// component is one that they refuse, and refusal what of it.
	component *component
	refusal
}

// refusalsIn collects the namespaces in which the webhooks of a node refuse
// components of the cycle, up to a bound.
func (g *Graph) refusalsIn(node int, c *cycle) refusals {
	var out refusals
	classes := c.classes
	if len(g.at(node).anchors) > 0 {
		classes = slices.Collect(g.candidates(node))
	}
	for _, class := range classes {
		p := g.classes[class].blocked
		if p == nil || g.cycleOf[class] != g.cycleOf[node] {
			continue
		}
		refused, ok := g.refuses(node, class)
		if !ok {
			continue
		}
		if out.component == nil {
			out.component, out.refusal = p, refused
		}
		out.resources = appendMissing(out.resources, refused.resource)
		for _, namespace := range g.classes[class].namespaces {
			if len(out.namespaces) == maxExcluded && !slices.Contains(out.namespaces, namespace) {
				out.more = true
				return out
			}
			out.namespaces = appendMissing(out.namespaces, namespace)
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
func (g *Graph) deadlock(node int, m member, c *cycle, common refusals) *Deadlock {
	d := &Deadlock{Webhooks: c.webhooks, Namespaces: slices.Clone(common.namespaces), More: common.more, Resources: slices.Clone(common.resources)}
	if refused, own := g.refuses(node, m.own.class); own {
		d.Waits = []Wait{m.waitOf(m.own, refused)}
		d.Namespaces = appendMissing(d.Namespaces, m.own.namespace)
		d.Resources = appendMissing(d.Resources, refused.resource)
	} else if d.Waits, d.Abridged = g.shortestCycle(node, m); d.Abridged && common.component != nil {
		d.Waits = append(d.Waits, m.waitOf(common.component, common.refusal))
	}
	if len(d.Waits) > 0 {
		last := &d.Waits[len(d.Waits)-1]
		last.Own = last.From == m.own.name
	}
	slices.Sort(d.Namespaces)
	return d
}

// waitOf is what the component waits for because of the webhook.
func (m member) waitOf(from *component, refused refusal) Wait {
	w := Wait{From: from.name, On: m.own.name, What: what[refused.resource], Use: m.own.use}
	if m.webhook != nil {
		w.Webhook = m.webhook.Webhook
	}
	if !refused.certain {
		w.Unless = refused.namespace
	}
	return w
}

// wait is a Wait between components.
type wait struct {
	Wait
	from, on *component
}

// shortestCycle finds the shortest way from what serves the webhook to what it
// refuses. Where that takes too long it is abridged to the first step.
func (g *Graph) shortestCycle(node int, m member) (waits []Wait, abridged bool) {
	until := g.steps + maxSearchSteps
	via := map[int]wait{m.own.class: {}}
	for queue := []*component{m.own}; len(queue) > 0; queue = queue[1:] {
		for h := range g.waits(queue[0], until) {
			if _, visited := via[h.on.class]; visited {
				continue
			}
			via[h.on.class] = h
			if refused, ok := g.refuses(node, h.on.class); ok {
				waits = []Wait{m.waitOf(h.on, refused)}
				for ; h.from != nil; h = via[h.from.class] {
					waits = append(waits, h.Wait)
				}
				slices.Reverse(waits)
				return waits, false
			}
			if len(waits) == 0 {
				waits = []Wait{h.Wait}
			}
			queue = append(queue, h.on)
		}
	}
	return waits, true
}

// waits are what the component waits for in its cycle, one of each class, until that
// many steps are done.
func (g *Graph) waits(p *component, until int) iter.Seq[wait] {
	return func(yield func(wait) bool) {
		for node := range g.candidates(p.class) {
			if g.steps >= until || !g.tick() {
				return
			}
			if g.cycleOf[node] != g.cycleOf[p.class] {
				continue
			}
			refused, ok := g.refuses(node, p.class)
			if !ok {
				continue
			}
			for _, m := range g.at(node).entries {
				if g.steps >= until || !g.tick() || !yield(wait{m.waitOf(p, refused), p, m.own}) {
					return
				}
			}
		}
	}
}
