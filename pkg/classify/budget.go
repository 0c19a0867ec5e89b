package classify

import (
	"cmp"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Cost is what webhooks cost the requests to a resource in the worst case, in
// the namespace where it is worst.
type Cost struct {
	Resource  inventory.Resource
	Operation inventory.Operation
	// Namespace is one where it is worst; "" for a cluster-scoped resource, and
	// where the namespaces are not known.
	Namespace string
	inventory.Budget
	// chain are the places of the webhooks in the Report's profiles.
	chain []int
}

// Excess is a budget of the Policy that requests exceed.
type Excess struct {
	Cost
	Allowed Budget
}

// books know which webhooks are called in which namespace.
type books struct {
	snapshot *inventory.Snapshot
	profiles []Profile
	// namespaces stand for all that exist; none where they are not known, and
	// one may exist that all webhooks select.
	namespaces []string
	// selected says for each namespace which webhooks select it.
	selected [][]bool
}

func newBooks(s *inventory.Snapshot, profiles []Profile) books {
	b := books{snapshot: s, profiles: profiles}
	if !s.NamespacesKnown {
		return b
	}
	webhooks := make([]*inventory.Webhook, len(profiles))
	for i := range profiles {
		webhooks[i] = profiles[i].Webhook
	}
	b.namespaces = s.Representatives(webhooks)
	for _, namespace := range b.namespaces {
		selected := make([]bool, len(webhooks))
		for i, w := range webhooks {
			selected[i] = s.Selects(w, namespace)
		}
		b.selected = append(b.selected, selected)
	}
	return b
}

// costs are those of each operation on the resources that the server serves.
func (b books) costs(resources []inventory.Resource) []Cost {
	var out []Cost
	for _, r := range resources {
		for _, op := range b.snapshot.Operations(r) {
			out = append(out, b.worst(r, op))
		}
	}
	return out
}

func (b books) worst(r inventory.Resource, op inventory.Operation) Cost {
	all, namespaced := b.called(r, op)
	if !namespaced || len(b.namespaces) == 0 {
		return b.cost(Cost{Resource: r, Operation: op, chain: all})
	}
	var worst Cost
	for n, namespace := range b.namespaces {
		here := slices.DeleteFunc(slices.Clone(all), func(i int) bool { return !b.selected[n][i] })
		cost := b.cost(Cost{Resource: r, Operation: op, Namespace: namespace, chain: here})
		if n == 0 || cmp.Or(cmp.Compare(cost.Total(), worst.Total()), cmp.Compare(cost.Webhooks, worst.Webhooks)) > 0 {
			worst = cost
		}
	}
	return worst
}

// called returns the webhooks that the operation may meet in some namespace.
func (b books) called(r inventory.Resource, op inventory.Operation) (all []int, namespaced bool) {
	for i := range b.profiles {
		p := &b.profiles[i]
		at, found := slices.BinarySearchFunc(p.Reached, r, func(reached inventory.Reached, r inventory.Resource) int {
			return reached.Resource.Compare(r)
		})
		if found && p.Type != inventory.Conversion && p.Reached[at].Operations.Has(op) {
			all, namespaced = append(all, i), p.Reached[at].Namespaced
		}
	}
	return all, namespaced
}

// cost adds up the chain.
func (b books) cost(c Cost) Cost {
	webhooks := make([]*inventory.Webhook, len(c.chain))
	for i, at := range c.chain {
		webhooks[i] = b.profiles[at].Webhook
	}
	c.Budget = inventory.BudgetOf(webhooks)
	return c
}

// findCosts computes what the critical resources cost, and tells each webhook
// of a chain that exceeds a budget of the Policy.
func (p *Policy) findCosts(s *inventory.Snapshot, profiles []Profile) []Cost {
	b := newBooks(s, profiles)
	for _, allowed := range p.Budgets {
		cost, exceeds := worstExcess(b.costs([]inventory.Resource{allowed.Resource}), allowed)
		if !exceeds {
			continue
		}
		for _, i := range cost.chain {
			profiles[i].Excesses = append(profiles[i].Excesses, Excess{cost, allowed})
		}
	}
	critical := slices.Clone(p.Classes[ClassCritical])
	slices.SortFunc(critical, inventory.Resource.Compare)
	return b.costs(slices.Compact(critical))
}

// worstExcess returns the operation that exceeds the budget by most, if any
// does: one is enough to act on.
func worstExcess(costs []Cost, allowed Budget) (worst Cost, exceeds bool) {
	for _, c := range costs {
		over := allowed.Seconds > 0 && c.Total() > secondsOf(allowed.Seconds) || allowed.Webhooks > 0 && c.Webhooks > allowed.Webhooks
		if over && (!exceeds || c.Total() > worst.Total()) {
			worst, exceeds = c, true
		}
	}
	return worst, exceeds
}
