package start

import (
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
	// that takes longer is reported by its last step.
	maxSearchSteps = 400
)

// Deadlock is a cycle of what needs what to start.
type Deadlock struct {
	// Waits lead from what serves the webhook to what the webhook refuses, which
	// the last is, alone where the way is long.
	Waits []Wait
	// Certain says that the cycle depends neither on labels that are unknown nor on leases.
	Certain bool
	// Namespaces are those that the webhook must leave alone to break all
	// cycles that lead through it, Resources what it refuses there.
	Namespaces []string
	Resources  []inventory.Resource
	// More says that there are more Namespaces than are listed.
	More bool
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
	// Leads says that it waits only if its Pods serve once one of them leads.
	Leads bool
	// Unless is the namespace that labels may exempt that are not known, "" where
	// none may.
	Unless string
}

// Deadlocks are the cycles of each of New's webhooks, nil for one that takes part in
// none. Where one is certain, it is reported rather than a possible one.
func (g *Graph) Deadlocks() []*Deadlock {
	out := g.deadlocks(func(refusal) bool { return true })
	for i, sure := range g.deadlocks(func(r refusal) bool { return r.certain }) {
		if sure != nil {
			sure.Certain = true
			sure.Namespaces, sure.More = out[i].Namespaces, out[i].More
			out[i] = sure
		}
	}
	return out
}

// cycles are all that keep each other from starting, by the refusals that count.
type cycles struct {
	*Graph
	counts func(refusal) bool
	// members are the numbers of the nodes' cycles, as components returns them.
	members []int
	// namespaces are those of what serves them, by class, as many as a fix may exclude and
	// one more.
	namespaces map[int][]string
}

// deadlocks are those of each webhook by the refusals that count.
func (g *Graph) deadlocks(counts func(refusal) bool) []*Deadlock {
	c := &cycles{g, counts, g.components(counts), map[int][]string{}}
	for i, class := range g.blocking {
		for _, m := range class.members {
			own := m.own.class
			if !c.takesPart(i, own) {
				continue
			}
			if len(c.namespaces[own]) <= maxExcluded {
				c.namespaces[own] = appendMissing(c.namespaces[own], m.own.namespace)
			}
		}
	}
	out := make([]*Deadlock, g.webhooks)
	for i, class := range g.blocking[:g.everyPod()] {
		if !slices.ContainsFunc(class.backends, func(m member) bool { return c.takesPart(i, m.own.class) }) {
			continue
		}
		common := c.refusalsBy(i)
		for _, m := range class.members {
			if c.takesPart(i, m.own.class) {
				out[m.index] = c.deadlock(m, common)
			}
		}
	}
	return out
}

// takesPart reports whether the webhooks and the components wait for each other.
func (c *cycles) takesPart(webhooks, class int) bool {
	return c.members[len(c.classes)+webhooks] == c.members[class]
}

// refusals are what the webhooks of a class refuse of their cycle, by class; first is one
// of them.
type refusals struct {
	byClass    map[int]refusal
	first      refusal
	namespaces []string
	more       bool
	resources  []inventory.Resource
}

// refusalsBy collects the namespaces in which the webhooks refuse components of the
// cycle, up to a bound.
func (c *cycles) refusalsBy(webhooks int) refusals {
	out := refusals{byClass: map[int]refusal{}}
	for _, r := range c.blocking[webhooks].refuses {
		if !c.counts(r) || !c.takesPart(webhooks, r.class) {
			continue
		}
		if len(out.byClass) == 0 {
			out.first = r
		}
		out.byClass[r.class] = r
		out.resources = appendMissing(out.resources, r.resource)
		for _, namespace := range c.namespaces[r.class] {
			out.namespaces = appendMissing(out.namespaces, namespace)
		}
		if len(out.namespaces) > maxExcluded {
			out.namespaces, out.more = out.namespaces[:maxExcluded], true
		}
	}
	return out
}

// deadlock describes how the webhook takes part in the cycle.
func (c *cycles) deadlock(m member, refused refusals) *Deadlock {
	d := &Deadlock{
		Waits:      c.shortest(m, refused.byClass),
		Namespaces: slices.Clone(refused.namespaces), More: refused.more, Resources: slices.Clone(refused.resources),
	}
	if _, own := refused.byClass[m.own.class]; own {
		d.Namespaces = appendMissing(d.Namespaces, m.own.namespace)
	}
	if len(d.Waits) == 0 {
		d.Waits = []Wait{m.waitOf(c.classes[refused.first.class].components[0], refused.first)}
	}
	last := &d.Waits[len(d.Waits)-1]
	last.Own = last.From == m.own.name
	slices.Sort(d.Namespaces)
	return d
}

// waitOf is what the component waits for because of the webhook.
func (m member) waitOf(component *component, r refusal) Wait {
	n := needOf(r.resource)
	w := Wait{From: component.name, On: m.own.name, What: n.refused, Use: m.own.use, Leads: n.leads}
	if m.webhook != nil {
		w.Webhook = m.webhook.Webhook
	}
	if !r.certain && !n.leads {
		w.Unless = r.namespace
	}
	return w
}

// shortest finds the shortest way from what serves the webhook to what it refuses; none
// where that takes too long.
func (c *cycles) shortest(m member, refused map[int]refusal) []Wait {
	if r, own := refused[m.own.class]; own {
		return []Wait{m.waitOf(m.own, r)}
	}
	type step struct {
		Wait
		component *component
	}
	steps, via := 0, map[int]step{m.own.class: {}}
	for queue := []*component{m.own}; len(queue) > 0; queue = queue[1:] {
		current := queue[0]
		for _, r := range c.classes[current.class].refused {
			if !c.counts(r) || !c.takesPart(r.webhooks, current.class) {
				continue
			}
			for _, next := range c.blocking[r.webhooks].backends {
				if steps++; steps > maxSearchSteps {
					return nil
				}
				if _, visited := via[next.own.class]; visited || !c.takesPart(r.webhooks, next.own.class) {
					continue
				}
				via[next.own.class] = step{next.waitOf(current, r), current}
				queue = append(queue, next.own)
				if r, is := refused[next.own.class]; is {
					waits := []Wait{m.waitOf(next.own, r)}
					for s := via[next.own.class]; s.component != nil; s = via[s.component.class] {
						waits = append(waits, s.Wait)
					}
					slices.Reverse(waits)
					return waits
				}
			}
		}
	}
	return nil
}

// components numbers the nodes of each strongly connected component: all that wait for
// each other by refusals that count. The nodes are the classes of components, then those
// of webhooks. It is Tarjan's algorithm.
func (g *Graph) components(counts func(refusal) bool) []int {
	n := len(g.classes) + len(g.blocking)
	component, index, low := make([]int, n), make([]int, n), make([]int, n)
	var open []int
	visited := 0
	var visit func(node int)
	visit = func(node int) {
		visited++
		index[node], low[node] = visited, visited
		open = append(open, node)
		g.next(node, counts, func(next int) {
			if index[next] == 0 {
				visit(next)
				low[node] = min(low[node], low[next])
			} else if component[next] == 0 {
				low[node] = min(low[node], index[next])
			}
		})
		if low[node] == index[node] {
			i := slices.Index(open, node)
			for _, member := range open[i:] {
				component[member] = node + 1
			}
			open = open[:i]
		}
	}
	for node := range n {
		if index[node] == 0 {
			visit(node)
		}
	}
	return component
}

// next visits the nodes that a node waits for.
func (g *Graph) next(node int, counts func(refusal) bool, visit func(int)) {
	if class := node - len(g.classes); class >= 0 {
		for _, m := range g.blocking[class].backends {
			visit(m.own.class)
		}
		return
	}
	for _, r := range g.classes[node].refused {
		if counts(r) {
			visit(len(g.classes) + r.webhooks)
		}
	}
}
