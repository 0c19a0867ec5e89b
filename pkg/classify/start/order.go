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
	// asked is for each class of components the number of its candidates that refuse
	// it no more.
	asked []int
	// waiting are for each class of webhooks the components that wait for it, and
	// down how many of its backends do not run yet.
	waiting [][]int
	down    []int
	// started are the classes of components that run.
	started []bool
}

// Order says in which waves Services start that are down, while the webhooks that
// they serve refuse what they are called for, and which of them never do. What every
// Pod needs has to start as well, as after a restart of the cluster. It asks each pair
// of classes once at most.
func Order(step Step, m *admission.Matcher, webhooks []Webhook, services []inventory.Key) (waves [][]inventory.Key, stuck []Blocked, err error) {
	o := newOrder(step, m, webhooks, services)
	ready := make([]int, len(o.classes))
	for class := range ready {
		ready[class] = class
	}
	for len(ready) > 0 && !o.ended {
		var wave []inventory.Key
		if wave, ready = o.start(ready); len(wave) > 0 {
			slices.SortFunc(wave, inventory.Key.Compare)
			waves = append(waves, wave)
		}
	}
	if o.ended {
		return nil, nil, o.err
	}
	var everyPod []int
	for _, class := range o.at(o.everyPod()).backends {
		everyPod = o.blockers(class, everyPod)
	}
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
			stuck = append(stuck, Blocked{key, by[:min(len(by), maxBlocking)], len(by) > maxBlocking})
		}
	}
	slices.SortFunc(stuck, func(a, b Blocked) int { return a.Service.Compare(b.Service) })
	return waves, stuck, nil
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
	o.started, o.asked = make([]bool, len(o.classes)), make([]int, len(o.classes))
	o.down, o.waiting = make([]int, len(o.blocking)), make([][]int, len(o.blocking))
	for i, class := range o.blocking {
		o.down[i] = len(class.backends)
	}
	return o
}

// start starts those of the classes that nothing refuses any more, and returns their
// Services and the classes that no longer wait for what they waited for. What every
// Pod needs is no wave of its own.
func (o *order) start(ready []int) (wave []inventory.Key, released []int) {
	var started []int
	for ; len(ready) > 0 && o.tick(); ready = ready[1:] {
		class := ready[0]
		switch {
		case !o.startable(class):
		case o.classes[class].components[0].use != "":
			ready = append(ready, o.releasedBy(class)...)
		default:
			started = append(started, class)
		}
	}
	for _, class := range started {
		wave = append(wave, o.services[class]...)
		released = append(released, o.releasedBy(class)...)
	}
	return wave, released
}

// startable reports whether nothing that is down refuses the class; else it waits for
// that.
func (o *order) startable(class int) bool {
	place := 0
	for node := range o.candidates(class) {
		if place++; place <= o.asked[class] {
			continue
		}
		if i := node - len(o.classes); o.refused(class, i) || o.ended {
			o.waiting[i] = append(o.waiting[i], class)
			return false
		}
		o.asked[class] = place
	}
	return true
}

// refused reports whether webhooks that are down refuse the class.
func (o *order) refused(class, webhooks int) bool {
	if o.down[webhooks] == 0 {
		return false
	}
	_, refused := o.refuses(o.nodeOf(webhooks), class)
	return refused
}

// releasedBy are the classes that waited for webhooks which the class, which runs
// now, served last.
func (o *order) releasedBy(class int) []int {
	var out []int
	o.started[class] = true
	for _, node := range o.serves[class] {
		i := node - len(o.classes)
		if o.down[i]--; o.down[i] == 0 {
			out = append(out, o.waiting[i]...)
		}
	}
	return out
}

// blockers adds the webhooks that refuse the class, which waits for one of them, up to
// one more than is named. Those that every Pod waits for come last.
func (o *order) blockers(class int, by []int) []int {
	if o.started[class] {
		return by
	}
	for node := range o.candidates(class) {
		if len(by) > maxBlocking {
			break
		}
		if node == o.everyPod() || !o.refused(class, node-len(o.classes)) {
			continue
		}
		for _, m := range o.at(node).members {
			if !o.started[m.own.class] && len(by) <= maxBlocking {
				by = appendMissing(by, m.index)
			}
		}
	}
	return by
}
