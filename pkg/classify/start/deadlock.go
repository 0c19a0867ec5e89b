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

// Deadlocks are the cycles of each of New's webhooks, nil for one that takes part in
// none. Where one is certain, it is reported rather than a possible one.
func (g *Graph) Deadlocks() []*Deadlock {
	if g.ended {
		return make([]*Deadlock, g.webhooks)
	}
	out := g.cyclesBy(func(refusal) bool { return true }).deadlocks()
	for i, sure := range g.cyclesBy(func(r refusal) bool { return r.certain }).deadlocks() {
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
	// of are the numbers of the nodes' cycles, as components returns them.
	of []int
	// webhooks counts those that take part in each cycle.
	webhooks map[int]int
	// parts are the classes of components that serve them.
	parts map[int]*part
	// entries are for each class of webhooks members that take part, one for each
	// class of what serves them.
	entries map[int][]member
}

// part is a class of components that takes part in a cycle, by one of them and the
// namespaces of all that do.
type part struct {
	component  *component
	namespaces []string
}

func (g *Graph) cyclesBy(counts func(refusal) bool) *cycles {
	c := &cycles{g, counts, g.components(counts), map[int]int{}, map[int]*part{}, map[int][]member{}}
	type classIn struct {
		class     int
		namespace string
	}
	known := map[classIn]bool{}
	for i, class := range g.blocking {
		entered := map[int]bool{}
		for _, m := range class.members {
			at := m.own.class
			if !c.takesPart(i, at) {
				continue
			}
			if c.parts[at] == nil {
				c.parts[at] = &part{component: m.own}
			}
			if in := (classIn{at, m.own.namespace}); !known[in] {
				known[in] = true
				c.parts[at].namespaces = append(c.parts[at].namespaces, m.own.namespace)
			}
			if m.webhook != nil {
				c.webhooks[c.of[at]]++
			}
			if !entered[at] {
				entered[at] = true
				c.entries[i] = append(c.entries[i], m)
			}
		}
	}
	return c
}

// takesPart reports whether the webhooks and the components wait for each other.
func (c *cycles) takesPart(webhooks, class int) bool {
	return c.of[len(c.classes)+webhooks] == c.of[class]
}

// deadlocks are those of each webhook.
func (c *cycles) deadlocks() []*Deadlock {
	out := make([]*Deadlock, c.Graph.webhooks)
	for i, class := range c.blocking[:c.everyPod()] {
		if len(c.entries[i]) == 0 {
			continue
		}
		common := c.refusalsBy(i)
		for _, m := range class.members {
			if c.takesPart(i, m.own.class) && c.tick() {
				out[m.index] = c.deadlock(i, m, common)
			}
		}
	}
	return out
}

// refusals are what the webhooks of a class refuse of their cycle, by class.
type refusals struct {
	of         map[int]refusal
	namespaces []string
	more       bool
	resources  []inventory.Resource
	// last is what they refuse of a component of the first class.
	last func(member) Wait
}

// refusalsBy collects the namespaces in which the webhooks refuse components of the
// cycle, up to a bound.
func (c *cycles) refusalsBy(webhooks int) refusals {
	out := refusals{of: map[int]refusal{}}
	for _, r := range c.blocking[webhooks].refuses {
		p := c.parts[r.class]
		if p == nil || !c.counts(r) || !c.takesPart(webhooks, r.class) {
			continue
		}
		out.of[r.class] = r
		if out.last == nil {
			out.last = func(m member) Wait { return m.waitOf(p.component, r) }
		}
		out.resources = appendMissing(out.resources, r.resource)
		for _, namespace := range p.namespaces {
			if len(out.namespaces) < maxExcluded {
				out.namespaces = appendMissing(out.namespaces, namespace)
			} else if !slices.Contains(out.namespaces, namespace) {
				out.more = true
				break
			}
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
func (c *cycles) deadlock(webhooks int, m member, common refusals) *Deadlock {
	d := &Deadlock{Webhooks: c.webhooks[c.of[m.own.class]], Namespaces: slices.Clone(common.namespaces), More: common.more, Resources: slices.Clone(common.resources)}
	if r, own := common.of[m.own.class]; own {
		d.Waits = []Wait{m.waitOf(m.own, r)}
		d.Namespaces = appendMissing(d.Namespaces, m.own.namespace)
	} else if d.Waits = c.shortest(m, common.of); len(d.Waits) == 0 && common.last != nil {
		d.Waits = []Wait{common.last(m)}
	}
	if len(d.Waits) > 0 {
		last := &d.Waits[len(d.Waits)-1]
		last.Own = last.From == m.own.name
	}
	slices.Sort(d.Namespaces)
	return d
}

// waitOf is what the component waits for because of the webhook.
func (m member) waitOf(from *component, r refusal) Wait {
	w := Wait{From: from.name, On: m.own.name, What: what[r.resource], Use: m.own.use}
	if m.webhook != nil {
		w.Webhook = m.webhook.Webhook
	}
	if !r.certain {
		w.Unless = r.namespace
	}
	return w
}

// step is a Wait between components.
type step struct {
	Wait
	from, on *component
}

// shortest finds the shortest way from what serves the webhook to what it refuses; none
// where that takes too long.
func (c *cycles) shortest(m member, refused map[int]refusal) []Wait {
	steps := 0
	via := map[int]step{m.own.class: {}}
	for queue := []*component{m.own}; len(queue) > 0; queue = queue[1:] {
		for _, h := range c.waits(queue[0]) {
			if steps++; steps > maxSearchSteps || !c.tick() {
				return nil
			}
			if _, visited := via[h.on.class]; visited {
				continue
			}
			via[h.on.class] = h
			if r, ok := refused[h.on.class]; ok {
				waits := []Wait{m.waitOf(h.on, r)}
				for ; h.from != nil; h = via[h.from.class] {
					waits = append(waits, h.Wait)
				}
				slices.Reverse(waits)
				return waits
			}
			queue = append(queue, h.on)
		}
	}
	return nil
}

// waits are what the component waits for in its cycle, one of each class, as far as a
// search looks.
func (c *cycles) waits(p *component) []step {
	var out []step
	for _, r := range c.classes[p.class].refused {
		if !c.counts(r) || !c.takesPart(r.webhooks, p.class) {
			continue
		}
		for _, m := range c.entries[r.webhooks] {
			if out = append(out, step{m.waitOf(p, r), p, m.own}); len(out) > maxSearchSteps {
				return out
			}
		}
	}
	return out
}
