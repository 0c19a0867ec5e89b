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
	// where the namespaces are unknown.
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
	// classes are those of namespaces that are compared, omitted how many are not.
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
	b := costIndex{
		work: w, matcher: m, chains: map[inventory.Resource][]*Profile{}, selectors: map[string]inventory.Selector{},
	}
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
	b.compareNamespaces()
	return b
}

// compareNamespaces asks each selector about a namespace of each class.
func (b *costIndex) compareNamespaces() {
	mentions := admission.MentionsOf(slices.Collect(maps.Values(b.selectors))...)
	for _, class := range mentions.Namespaces(b.matcher.Snapshot) {
		namespaceLabels, _ := b.matcher.Snapshot.NamespaceLabels(class[0])
		b.compareNamespace(class[0], namespaceLabels)
	}
}

// compareNamespace asks each selector about a namespace, unless that is too much.
func (b *costIndex) compareNamespace(name string, namespaceLabels map[string]string) {
	if len(b.classes) > 0 && (len(b.classes)+1)*len(b.selectors) > maxCompared {
		b.omitted++
		return
	}
	selected := map[string]bool{}
	for key, selector := range b.selectors {
		if !b.work.step() {
			return
		}
		if selector.Parsed.Matches(labels.Set(namespaceLabels)) {
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

// worst is what costs most of what the requests meet.
func (b costIndex) worst(r inventory.Resource, op admission.Operation) chainCost {
	out := chainCost{Cost: Cost{Resource: r, Operation: op}}
	for _, c := range b.meetings(r, op) {
		if cmp.Or(cmp.Compare(c.Total(), out.Total()), cmp.Compare(c.Webhooks, out.Webhooks)) > 0 {
			out = c
		}
	}
	return out
}

// meetings are the webhooks that one object meets in one namespace. Each webhook is in one
// of those at least, of the namespace where most time can pass.
func (b costIndex) meetings(r inventory.Resource, op admission.Operation) []chainCost {
	chain, namespaced := b.called(r, op)
	bySelector := map[string][]*Profile{}
	for _, p := range chain {
		bySelector[p.NamespaceSelector.Key] = append(bySelector[p.NamespaceSelector.Key], p)
	}
	var out []chainCost
	add := func(namespace string, met []*Profile, asks func(*Profile) asked) {
		for _, group := range b.together(met, asks) {
			out = append(out, chainCost{Cost{r, op, namespace, budgetOf(group, op)}, group})
		}
	}
	switch {
	case r.IsNamespaces():
		add("", chain, func(p *Profile) asked {
			return asked{object: []inventory.Selector{p.ObjectSelector, p.NamespaceSelector}}
		})
		return out
	case !namespaced:
		add("", chain, asksObject)
		return out
	}
	for _, class := range b.costliest(bySelector, op) {
		var met []*Profile
		for _, key := range slices.Sorted(maps.Keys(bySelector)) {
			if class.selected[key] {
				met = append(met, bySelector[key]...)
			}
		}
		add(class.name, met, asksObject)
	}
	if !b.matcher.Snapshot.NamespacesKnown {
		add("", chain, func(p *Profile) asked {
			return asked{[]inventory.Selector{p.ObjectSelector}, []inventory.Selector{p.NamespaceSelector}}
		})
	}
	return out
}

// costliest are the classes of namespaces that select a webhook which costs time there, and in
// none before: of validating ones, which are called at once, the slowest alone does.
func (b costIndex) costliest(bySelector map[string][]*Profile, op admission.Operation) []namespaceClass {
	budgets, totals := map[string]admission.Budget{}, map[string]admission.Budget{}
	for key, chain := range bySelector {
		budgets[key] = budgetOf(chain, op)
	}
	for _, class := range b.classes {
		here := admission.Budget{}
		for key, budget := range budgets {
			if class.selected[key] {
				here = here.Plus(budget)
			}
		}
		totals[class.name] = here
	}
	var out []namespaceClass
	type selection struct {
		selector string
		slowest  bool // of the validating webhooks
	}
	seen := map[selection]bool{}
	for _, class := range slices.SortedStableFunc(slices.Values(b.classes),
		func(x, y namespaceClass) int { return cmp.Compare(totals[y.name].Total(), totals[x.name].Total()) }) {
		before := len(seen)
		for key, budget := range budgets {
			if class.selected[key] {
				seen[selection{key, false}] = true
				seen[selection{key, budget.Validating == totals[class.name].Validating}] = true
			}
		}
		if len(seen) > before {
			out = append(out, class)
		}
	}
	return out
}

func budgetOf(chain []*Profile, op admission.Operation) admission.Budget {
	var out admission.Budget
	for _, p := range chain {
		out = out.Add(p.Webhook, op)
	}
	return out
}

// asked are the selectors that are asked about the object, and about a namespace of which
// nothing is known.
type asked struct{ object, namespace []inventory.Selector }

func asksObject(p *Profile) asked { return asked{object: []inventory.Selector{p.ObjectSelector}} }

func (a asked) and(o asked) asked {
	return asked{slices.Concat(a.object, o.object), slices.Concat(a.namespace, o.namespace)}
}

// met reports whether one object, in one namespace, can have the labels for all of them.
func (a asked) met() bool {
	return admission.OneObject(a.object...) && admission.OneNamespace(a.namespace...)
}

// maxAsked bounds how many selectors of one chain are compared with each other: those of
// the webhooks that cost most.
const maxAsked = 32

// together splits the webhooks into those that one object can meet, the costliest first. Any
// two that one object can meet are in one of those: the costliest alone may exclude others.
func (b costIndex) together(met []*Profile, asks func(*Profile) asked) [][]*Profile {
	alike := map[string][]*Profile{}
	for _, p := range met {
		key := p.ObjectSelector.Key
		if a := asks(p); len(a.object)+len(a.namespace) > 1 {
			key += " " + p.NamespaceSelector.Key
		}
		alike[key] = append(alike[key], p)
	}
	keys := slices.SortedFunc(maps.Keys(alike), func(x, y string) int {
		return cmp.Or(cmp.Compare(budgetOf(alike[y], admission.Delete).Total(),
			budgetOf(alike[x], admission.Delete).Total()), cmp.Compare(x, y))
	})
	keys = keys[:min(len(keys), maxAsked)]
	joined := func(order []string) (group []string) {
		var all asked
		for _, key := range order {
			if both := all.and(asks(alike[key][0])); !slices.Contains(group, key) && b.work.step() && both.met() {
				all, group = both, append(group, key)
			}
		}
		return group
	}
	var out [][]*Profile
	grouped := map[[2]string]bool{}
	for i, first := range keys {
		for _, second := range keys[i:] {
			pair := slices.Compact([]string{first, second})
			if grouped[[2]string{first, second}] || len(joined(pair)) < len(pair) {
				continue
			}
			var group []*Profile
			members := joined(slices.Concat(pair, keys))
			for _, key := range members {
				group = append(group, alike[key]...)
				for _, other := range members {
					grouped[[2]string{key, other}] = true
				}
			}
			out = append(out, group)
		}
	}
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
		over := allowed.Seconds > 0 && c.Total() > secondsOf(allowed.Seconds) ||
			allowed.Webhooks > 0 && c.Webhooks > allowed.Webhooks
		if over && (!exceeds || c.Total() > worst.Total()) {
			worst, exceeds = c, true
		}
	}
	return worst, exceeds
}
