package start

import (
	"fmt"
	"maps"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Blocked are Services that wait for themselves.
type Blocked struct {
	Services []inventory.Key
	// By are the webhooks that refuse what they need, by their places in what Order was given.
	By []int
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
func Order(step func() bool, m *admission.Matcher, webhooks []Webhook, services []inventory.Key) Recovery {
	o := order{Graph: newGraph(m, len(webhooks)), services: map[int][]inventory.Key{}}
	var members []member
	for i := range webhooks {
		members = append(members, member{i, &webhooks[i], o.backendOf(webhooks[i].Service)})
	}
	others := lists.Map(services, o.backendOf)
	o.build(step, members, others)
	for i, c := range others {
		o.services[c.class] = append(o.services[c.class], services[i])
	}
	o.started = make([]bool, len(o.classes))
	out := Recovery{NotCompared: o.NotCompared()}
	for ready := o.ready(); len(ready) > 0; ready = o.ready() {
		var wave []inventory.Key
		for _, class := range ready {
			o.started[class] = true
			wave = append(wave, o.services[class]...)
		}
		if len(wave) > 0 {
			slices.SortFunc(wave, inventory.Key.Compare)
			out.Waves = append(out.Waves, wave)
		}
	}
	out.Stuck = o.stuckWebhooks()
	return out
}

// order finds out what starts when: services are those of each class.
type order struct {
	*Graph
	services map[int][]inventory.Key
	started  []bool
}

// ready are the classes that nothing refuses any more. What every Pod needs is no wave of
// its own, and comes before all others.
func (o *order) ready() []int {
	isDown := func(m member) bool { return !o.started[m.own.class] }
	var everyPod, others []int
	for class, c := range o.classes {
		switch {
		case o.started[class] ||
			slices.ContainsFunc(c.refused,
				func(r refusal) bool { return slices.ContainsFunc(o.blocking[r.webhooks].backends, isDown) }):
		case c.components[0].use != "":
			everyPod = append(everyPod, class)
		default:
			others = append(others, class)
		}
	}
	if len(everyPod) > 0 {
		return everyPod
	}
	return others
}

// stuckWebhooks are the Services that never start.
func (o *order) stuckWebhooks() []Blocked {
	everyPod := map[int]bool{}
	for _, m := range o.blocking[o.everyPod()].backends {
		o.addBlockers(everyPod, m.own.class)
	}
	together := map[string]Blocked{}
	for class, keys := range o.services {
		if o.started[class] {
			continue
		}
		blockers := map[int]bool{}
		if o.addBlockers(blockers, class); o.classes[class].network {
			maps.Copy(blockers, everyPod)
		}
		webhooks := slices.Sorted(maps.Keys(blockers))
		id := fmt.Sprint(webhooks)
		all := slices.Concat(keys, together[id].Services)
		together[id] = Blocked{slices.SortedFunc(slices.Values(all), inventory.Key.Compare), webhooks}
	}
	return slices.SortedFunc(maps.Values(together),
		func(a, b Blocked) int { return a.Services[0].Compare(b.Services[0]) })
}

// addBlockers adds the webhooks that refuse the class, which waits for one of them.
func (o *order) addBlockers(blockers map[int]bool, class int) {
	if o.started[class] {
		return
	}
	for _, r := range o.classes[class].refused {
		for _, m := range o.blocking[r.webhooks].members {
			if m.webhook != nil && !o.started[m.own.class] {
				blockers[m.index] = true
			}
		}
	}
}
