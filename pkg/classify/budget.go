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

// books know which webhooks are called for the resources, and where.
type books struct {
	snapshot *inventory.Snapshot
	profiles []Profile
	// chains are the places of the webhooks that a resource is sent to.
	chains map[inventory.Resource][]int
	// selector is the place of each webhook's namespaceSelector among all that
	// differ: large clusters have many webhooks and few selectors.
	selector  map[int]int
	selectors []inventory.Selector
	// namespaces stand for all that exist; none where they are not known, and
	// one may exist that all webhooks select.
	namespaces []string
	// selects says for each namespace which selectors let it through.
	selects [][]bool
}

func newBooks(s *inventory.Snapshot, profiles []Profile, resources []inventory.Resource) books {
	b := books{snapshot: s, profiles: profiles, chains: map[inventory.Resource][]int{}, selector: map[int]int{}}
	for _, r := range resources {
		b.chains[r] = sentTo(profiles, r)
	}
	known := map[string]int{}
	var webhooks []*inventory.Webhook
	for _, chain := range b.chains {
		for _, i := range chain {
			if _, ok := b.selector[i]; !ok {
				b.selector[i] = b.add(profiles[i].NamespaceSelector, known)
				webhooks = append(webhooks, profiles[i].Webhook)
			}
		}
	}
	if !s.NamespacesKnown {
		return b
	}
	b.namespaces = s.Representatives(webhooks)
	for _, namespace := range b.namespaces {
		selects := make([]bool, len(b.selectors))
		for i := range b.selectors {
			selects[i] = s.Selects(b.selectors[i], namespace)
		}
		b.selects = append(b.selects, selects)
	}
	return b
}

// sentTo returns the places of the webhooks that are called for the resource.
// Webhooks that ask for the same share what they reach, so that it is looked
// through once.
func sentTo(profiles []Profile, r inventory.Resource) []int {
	var out []int
	known := map[*inventory.Reached]bool{}
	for i := range profiles {
		p := &profiles[i]
		if len(p.Reached) == 0 || p.Type == inventory.Conversion {
			continue
		}
		first := &p.Reached[0]
		reaches, ok := known[first]
		if !ok {
			_, reaches = find(p.Reached, r)
			known[first] = reaches
		}
		if reaches {
			out = append(out, i)
		}
	}
	return out
}

func find(sorted []inventory.Reached, r inventory.Resource) (int, bool) {
	return slices.BinarySearchFunc(sorted, r, func(reached inventory.Reached, r inventory.Resource) int {
		return reached.Resource.Compare(r)
	})
}

// add returns the place of the selector among those that differ.
func (b *books) add(selector inventory.Selector, known map[string]int) int {
	key := ""
	if !selector.Empty() {
		key = selector.String()
	}
	place, ok := known[key]
	if !ok {
		place = len(b.selectors)
		known[key] = place
		b.selectors = append(b.selectors, selector)
	}
	return place
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
	chain, namespaced := b.called(r, op)
	bySelector := make([]inventory.Budget, len(b.selectors))
	for _, i := range chain {
		bySelector[b.selector[i]] = bySelector[b.selector[i]].Add(b.profiles[i].Webhook, op)
	}
	if !namespaced || len(b.namespaces) == 0 {
		return Cost{Resource: r, Operation: op, Budget: sum(bySelector, nil), chain: chain}
	}
	worst := 0
	var budget inventory.Budget
	for n := range b.namespaces {
		here := sum(bySelector, b.selects[n])
		if cmp.Or(cmp.Compare(here.Total(), budget.Total()), cmp.Compare(here.Webhooks, budget.Webhooks)) > 0 {
			worst, budget = n, here
		}
	}
	chain = slices.DeleteFunc(chain, func(i int) bool { return !b.selects[worst][b.selector[i]] })
	return Cost{r, op, b.namespaces[worst], budget, chain}
}

// sum joins the costs by selector: those that let the namespace through, or all
// where that is not the question.
func sum(bySelector []inventory.Budget, selects []bool) inventory.Budget {
	var all inventory.Budget
	for i, b := range bySelector {
		if b.Webhooks > 0 && (selects == nil || selects[i]) {
			all = all.Plus(b)
		}
	}
	return all
}

// called returns the webhooks that the operation may meet in some namespace.
func (b books) called(r inventory.Resource, op inventory.Operation) (chain []int, namespaced bool) {
	for _, i := range b.chains[r] {
		reached := b.profiles[i].Reached
		at, _ := find(reached, r)
		if reached[at].Operations.Has(op) {
			chain, namespaced = append(chain, i), reached[at].Namespaced
		}
	}
	return chain, namespaced
}

// findCosts computes what the critical resources cost, and tells each webhook
// of a chain that exceeds a budget of the Policy.
func (p *Policy) findCosts(s *inventory.Snapshot, profiles []Profile) []Cost {
	critical := slices.Clone(p.Classes[ClassCritical])
	slices.SortFunc(critical, inventory.Resource.Compare)
	critical = slices.Compact(critical)
	resources := slices.Clone(critical)
	for _, allowed := range p.Budgets {
		resources = append(resources, allowed.Resource)
	}
	b := newBooks(s, profiles, resources)
	for _, allowed := range p.Budgets {
		cost, exceeds := worstExcess(b.costs([]inventory.Resource{allowed.Resource}), allowed)
		if !exceeds {
			continue
		}
		for _, i := range cost.chain {
			profiles[i].Excesses = append(profiles[i].Excesses, Excess{cost, allowed})
		}
	}
	return b.costs(critical)
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
