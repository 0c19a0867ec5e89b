package start

import (
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// maxBlocking is the number of webhooks that are named of those that a Service waits
// for.
const maxBlocking = 20

// Blocked is a Service that waits for itself.
type Blocked struct {
	Service inventory.Key
	// By are the webhooks that refuse what it needs, by their places in what Order was
	// given, and More says that there may be more of them.
	By   []int
	More bool
}

// order finds out what starts when.
type order struct {
	*Graph
	services map[int][]inventory.Key
	// down are for each class of webhooks how many of its backends do not run yet,
	// and waits for each class of components how many classes of webhooks refuse it.
	down, waits []int
	started     []bool
}

// Recovery is in which waves Services start, one after the other, and which never do.
type Recovery struct {
	Waves [][]inventory.Key
	Stuck []Blocked
	// NotCompared is that of the Graph.
	NotCompared int
}

// Order says in which waves Services start that are down, while the webhooks that
// they serve refuse what they are called for, and which of them never do. What every
// Pod needs has to start as well, as after a restart of the cluster.
func Order(step Step, m *admission.Matcher, webhooks []Webhook, services []inventory.Key) (Recovery, error) {
	o := newOrder(step, m, webhooks, services)
	var out Recovery
	var ready []int
	for class := range o.waits {
		if o.waits[class] == 0 {
			ready = append(ready, class)
		}
	}
	for len(ready) > 0 {
		var wave []inventory.Key
		if wave, ready = o.start(ready); len(wave) > 0 {
			slices.SortFunc(wave, inventory.Key.Compare)
			out.Waves = append(out.Waves, wave)
		}
	}
	if o.ended {
		return Recovery{}, o.err
	}
	out.Stuck, out.NotCompared = o.stuck(), o.NotCompared()
	return out, nil
}

func newOrder(step Step, m *admission.Matcher, webhooks []Webhook, services []inventory.Key) *order {
	b := newBuilder(step, m)
	for i := range webhooks {
		b.block(member{i, &webhooks[i], b.behind(webhooks[i].Service)})
	}
	var others []*component
	for _, key := range services {
		others = append(others, b.behind(key))
	}
	o := &order{Graph: b.graph(others...), services: map[int][]inventory.Key{}}
	if o.ended {
		return o
	}
	for i, c := range others {
		o.services[c.class] = append(o.services[c.class], services[i])
	}
	o.started = make([]bool, len(o.classes))
	for _, class := range o.blocking {
		o.down = append(o.down, len(class.backends))
	}
	for _, class := range o.classes {
		o.waits = append(o.waits, len(class.refused))
	}
	return o
}

// start starts the classes, and returns their Services and the classes that nothing
// refuses any more. What every Pod needs is no wave of its own.
func (o *order) start(ready []int) (wave []inventory.Key, released []int) {
	var started []int
	for ; len(ready) > 0 && o.tick(); ready = ready[1:] {
		if class := ready[0]; o.classes[class].components[0].use != "" {
			ready = append(ready, o.release(class)...)
		} else {
			started = append(started, class)
		}
	}
	for _, class := range started {
		wave = append(wave, o.services[class]...)
		released = append(released, o.release(class)...)
	}
	return wave, released
}

// release returns the classes that waited for nothing but what the class serves.
func (o *order) release(class int) []int {
	var out []int
	o.started[class] = true
	for _, webhooks := range o.classes[class].serves {
		if o.down[webhooks]--; o.down[webhooks] > 0 {
			continue
		}
		for _, r := range o.blocking[webhooks].refuses {
			if o.waits[r.class]--; o.waits[r.class] == 0 {
				out = append(out, r.class)
			}
		}
	}
	return out
}

// stuck are the Services that never start.
func (o *order) stuck() []Blocked {
	var everyPod []int
	for _, class := range o.blocking[o.everyPod()].backends {
		everyPod = o.blockers(class, everyPod)
	}
	var out []Blocked
	for class, keys := range o.services {
		if o.started[class] {
			continue
		}
		by := o.blockers(class, nil)
		if o.classes[class].network {
			for _, i := range everyPod {
				by = appendMissing(by, i)
			}
		}
		for _, key := range keys {
			out = append(out, Blocked{key, by[:min(len(by), maxBlocking)], len(by) > maxBlocking})
		}
	}
	slices.SortFunc(out, func(a, b Blocked) int { return a.Service.Compare(b.Service) })
	return out
}

// blockers adds the webhooks that refuse the class, which waits for one of them, up to
// one more than is named.
func (o *order) blockers(class int, by []int) []int {
	if o.started[class] {
		return by
	}
	for _, r := range o.classes[class].refused {
		for _, m := range o.blocking[r.webhooks].members {
			if m.webhook != nil && !o.started[m.own.class] && len(by) <= maxBlocking {
				by = appendMissing(by, m.index)
			}
		}
	}
	return by
}
