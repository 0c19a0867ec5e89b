package classify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Cost is what webhooks cost the requests to a resource in the worst case, in
// the namespace where it is worst.
type Cost struct {
	Resource  inventory.Resource
	Operation admission.Operation
	// Namespace is one where it is worst; "" for a cluster-scoped resource, and
	// where the namespaces are not known.
	Namespace string
	admission.Budget
}

// chainCost is a Cost with its webhooks.
type chainCost struct {
	Cost
	chain []*Profile
}

// Excess is a budget of the Policy that requests exceed.
type Excess struct {
	Cost
	Allowed Budget
}

// costIndex maps resources to the webhooks that are called for them, with the
// classes of namespaces that their selectors distinguish.
type costIndex struct {
	work    *work
	matcher *admission.Matcher
	// chains are the webhooks that a resource is sent to.
	chains map[inventory.Resource][]*Profile
	// selectors are their namespaceSelectors by their keys: large clusters have many
	// webhooks and few selectors.
	selectors map[string]inventory.Selector
	// classes are those of namespaces that are compared, omitted how many are not; none
	// where they are not known, and one may exist that all webhooks select.
	classes []namespaceClass
	omitted int
}

// namespaceClass is one of the namespaces with the selectors that select it.
type namespaceClass struct {
	name     string
	selected map[string]bool
}

// maxCompared bounds how often namespaces that differ are compared with selectors:
// a thousand of the ones with fifty of the others.
const maxCompared = 50_000

// newCostIndex costs the webhooks and the namespaces, and up to maxCompared comparisons.
func newCostIndex(w *work, m *admission.Matcher, profiles []*Profile, resources []inventory.Resource) costIndex {
	b := costIndex{work: w, matcher: m, chains: map[inventory.Resource][]*Profile{}, selectors: map[string]inventory.Selector{}}
	for _, r := range resources {
		b.chains[r] = nil
	}
	for _, p := range profiles {
		for _, matched := range p.Matched {
			if chain, wanted := b.chains[matched.Resource]; wanted && p.Type != inventory.Conversion {
				b.chains[matched.Resource] = append(chain, p)
				b.selectors[p.NamespaceSelector.Key] = p.NamespaceSelector
			}
		}
	}
	if m.Snapshot.NamespacesKnown {
		b.compareNamespaces()
	}
	return b
}

// compareNamespaces asks each selector about a namespace of each class.
func (b *costIndex) compareNamespaces() {
	mentions := admission.MentionsOf(slices.Collect(maps.Values(b.selectors))...)
	for _, class := range mentions.Namespaces(b.matcher.Snapshot) {
		known, _ := b.matcher.Snapshot.NamespaceLabels(class[0])
		b.compareNamespace(class[0], known)
	}
}

// compareNamespace asks each selector about a namespace, unless that is too much.
func (b *costIndex) compareNamespace(name string, known map[string]string) {
	if len(b.classes) > 0 && (len(b.classes)+1)*len(b.selectors) > maxCompared {
		b.omitted++
		return
	}
	selected := map[string]bool{}
	for key, selector := range b.selectors {
		if !b.work.step() {
			return
		}
		if selector.Parsed.Matches(labels.Set(known)) {
			selected[key] = true
		}
	}
	b.classes = append(b.classes, namespaceClass{name, selected})
}

// incomplete is the error where not all namespaces are compared.
func (b *costIndex) incomplete() []inventory.Error {
	if b.omitted == 0 {
		return nil
	}
	return []inventory.Error{{Message: fmt.Sprintf("comparing what requests cost by namespace: %d kinds of namespaces with %d namespaceSelectors are too many, %d are left out: use fewer labels in namespaceSelectors", len(b.classes)+b.omitted, len(b.selectors), b.omitted)}}
}

func find(sorted []admission.MatchedResource, r inventory.Resource) (int, bool) {
	return slices.BinarySearchFunc(sorted, r, func(matched admission.MatchedResource, r inventory.Resource) int {
		return matched.Resource.Compare(r)
	})
}

// costs are those of each operation on the resources that the server serves.
func (b costIndex) costs(resources []inventory.Resource) []chainCost {
	var out []chainCost
	for _, r := range resources {
		for _, op := range b.matcher.Operations(r) {
			out = append(out, b.worst(r, op))
		}
	}
	return out
}

// worst finds the namespace where the requests cost most.
func (b costIndex) worst(r inventory.Resource, op admission.Operation) chainCost {
	chain, namespaced := b.called(r, op)
	bySelector := map[string]admission.Budget{}
	for _, p := range chain {
		bySelector[p.NamespaceSelector.Key] = bySelector[p.NamespaceSelector.Key].Add(p.Webhook, op)
	}
	out := chainCost{Cost: Cost{Resource: r, Operation: op}}
	if !namespaced || len(b.classes) == 0 {
		for _, here := range bySelector {
			out.Budget = out.Plus(here)
		}
		out.chain = chain
		return out
	}
	worst := b.classes[0]
	for _, class := range b.classes {
		here := admission.Budget{}
		for selector, budget := range bySelector {
			if class.selected[selector] {
				here = here.Plus(budget)
			}
		}
		if cmp.Or(cmp.Compare(here.Total(), out.Total()), cmp.Compare(here.Webhooks, out.Webhooks)) > 0 {
			worst, out.Budget = class, here
		}
	}
	out.Namespace = worst.name
	out.chain = slices.DeleteFunc(chain, func(p *Profile) bool { return !worst.selected[p.NamespaceSelector.Key] })
	return out
}

// called returns the webhooks that the operation may meet in some namespace.
func (b costIndex) called(r inventory.Resource, op admission.Operation) (chain []*Profile, namespaced bool) {
	for _, p := range b.chains[r] {
		at, _ := find(p.Matched, r)
		if p.Matched[at].Operations.Has(op) {
			chain, namespaced = append(chain, p), p.Matched[at].Namespaced
		}
	}
	return chain, namespaced
}

// criticalResources are those of the class, sorted.
func (p *Policy) criticalResources() []inventory.Resource {
	critical := slices.Clone(p.Classes[ClassCritical])
	slices.SortFunc(critical, inventory.Resource.Compare)
	return slices.Compact(critical)
}

// findCosts computes what the critical resources cost, and adds each exceeded
// budget of the Policy to the webhooks of the chain.
func (p *Policy) findCosts(w *work, r *Report) []inventory.Error {
	resources := p.criticalResources()
	for _, allowed := range p.Budgets {
		resources = append(resources, allowed.Resource)
	}
	b := newCostIndex(w, r.Matcher, r.Profiles, resources)
	if w.ended {
		return nil
	}
	for _, allowed := range p.Budgets {
		cost, exceeds := worstExcess(b.costs([]inventory.Resource{allowed.Resource}), allowed)
		if !exceeds {
			continue
		}
		for _, of := range cost.chain {
			of.Excesses = append(of.Excesses, Excess{cost.Cost, allowed})
		}
	}
	for _, cost := range b.costs(p.criticalResources()) {
		r.Costs = append(r.Costs, cost.Cost)
	}
	return b.incomplete()
}

// worstExcess returns the operation that exceeds the budget by most, if any
// does: one is enough to act on.
func worstExcess(costs []chainCost, allowed Budget) (worst chainCost, exceeds bool) {
	for _, c := range costs {
		over := allowed.Seconds > 0 && c.Total() > secondsOf(allowed.Seconds) || allowed.Webhooks > 0 && c.Webhooks > allowed.Webhooks
		if over && (!exceeds || c.Total() > worst.Total()) {
			worst, exceeds = c, true
		}
	}
	return worst, exceeds
}
