package classify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
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
	// classes are those of namespaces that are compared, errors say how many are not.
	classes []namespaceClass
	errors  []inventory.Error
}

// namespaceClass is one of the namespaces, with the keys of the selectors that select it.
type namespaceClass struct {
	name     string
	selected map[string]bool
}

// maxCompared bounds how often namespaces that differ are compared with selectors:
// a thousand of the ones with fifty of the others.
const maxCompared = 50_000

// newCostIndex costs the webhooks and the namespaces, and up to maxCompared comparisons.
func newCostIndex(w *work, m *admission.Matcher, profiles []*Profile, resources []inventory.Resource) costIndex {
	b := costIndex{work: w, matcher: m, chains: map[inventory.Resource][]*Profile{}}
	for _, r := range resources {
		b.chains[r] = nil
	}
	selectors := map[string]inventory.Selector{} // large clusters have many webhooks and few selectors
	for _, p := range profiles {
		for _, matched := range p.Matched {
			if chain, isWanted := b.chains[matched.Resource]; isWanted && p.Type != inventory.Conversion {
				b.chains[matched.Resource] = append(chain, p)
				selectors[p.NamespaceSelector.Key] = p.NamespaceSelector
			}
		}
	}
	distinct := admission.MentionsOf(slices.Collect(maps.Values(selectors))...).Namespaces(m.Snapshot)
	most := max(1, maxCompared/max(1, len(selectors)))
	if omitted := len(distinct) - most; omitted > 0 {
		b.errors = []inventory.Error{{Uncompared: true, Message: fmt.Sprintf("comparing what requests cost by namespace: %d kinds of namespaces with %d namespaceSelectors are too many, %d are left out: use fewer labels in namespaceSelectors", len(distinct), len(selectors), omitted)}}
		distinct = distinct[:most]
	}
	for _, names := range distinct {
		class := namespaceClass{names[0], map[string]bool{}}
		namespaceLabels, _ := m.Snapshot.NamespaceLabels(class.name)
		for key, selector := range selectors {
			if !w.step() {
				return b
			}
			if selector.Parsed.Matches(labels.Set(namespaceLabels)) {
				class.selected[key] = true
			}
		}
		b.classes = append(b.classes, class)
	}
	return b
}

func find(sorted []admission.MatchedResource, r inventory.Resource) (int, bool) {
	return slices.BinarySearchFunc(sorted, r, func(matched admission.MatchedResource, r inventory.Resource) int {
		return matched.Resource.Compare(r)
	})
}

// costs are the worst of each operation on the resources that the server serves.
func (b costIndex) costs(resources []inventory.Resource) []chainCost {
	var out []chainCost
	for _, r := range resources {
		for _, op := range b.matcher.Operations(r) {
			worst := chainCost{Cost: Cost{Resource: r, Operation: op}}
			for _, c := range b.meetings(r, op) {
				if cmp.Or(cmp.Compare(c.Total(), worst.Total()), cmp.Compare(c.Webhooks, worst.Webhooks)) > 0 {
					worst = c
				}
			}
			out = append(out, worst)
		}
	}
	return out
}

// meetings are the webhooks that one object meets in one namespace. Each webhook is in one
// of those at least, of the namespace where most time can pass.
func (b costIndex) meetings(r inventory.Resource, op admission.Operation) []chainCost {
	var chain []*Profile
	namespaced, bySelector := false, map[string][]*Profile{}
	for _, p := range b.chains[r] {
		i, _ := find(p.Matched, r)
		if p.Matched[i].Operations.Has(op) {
			chain, namespaced = append(chain, p), p.Matched[i].Namespaced
			bySelector[p.NamespaceSelector.Key] = append(bySelector[p.NamespaceSelector.Key], p)
		}
	}
	var out []chainCost
	add := func(namespace string, called []*Profile, asks asks) {
		for _, group := range b.together(called, asks) {
			out = append(out, chainCost{Cost{r, op, namespace, budgetOf(group, op)}, group})
		}
	}
	switch {
	case r.IsNamespaces():
		add("", chain, func(p *Profile) (object, namespace []inventory.Selector) {
			return []inventory.Selector{p.ObjectSelector, p.NamespaceSelector}, nil
		})
		return out
	case !namespaced:
		add("", chain, asksObject)
		return out
	}
	for _, class := range b.costliest(bySelector, op) {
		var called []*Profile
		for _, key := range slices.Sorted(maps.Keys(bySelector)) {
			if class.selected[key] {
				called = append(called, bySelector[key]...)
			}
		}
		add(class.name, called, asksObject)
	}
	if !b.matcher.Snapshot.NamespacesKnown {
		add("", chain, func(p *Profile) (object, namespace []inventory.Selector) {
			return []inventory.Selector{p.ObjectSelector}, []inventory.Selector{p.NamespaceSelector}
		})
	}
	return out
}

// maxPaired bounds the namespaceSelectors of one chain of which any two are looked for in one
// namespace: of more, each is in some namespace.
const maxPaired = 12

// costliest are the classes of namespaces that select webhooks which cost time there, and in
// none before any two of them: objects that meet the costliest may not meet the others. Of validating
// ones, which are called at once, the slowest alone does.
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
		selector, other string
		slowest         bool // of the validating webhooks
	}
	compared := map[selection]bool{}
	for _, class := range slices.SortedStableFunc(slices.Values(b.classes),
		func(x, y namespaceClass) int { return cmp.Compare(totals[y.name].Total(), totals[x.name].Total()) }) {
		before := len(compared)
		for key, budget := range budgets {
			if class.selected[key] {
				compared[selection{key, key, false}] = true
				compared[selection{key, key, budget.Validating == totals[class.name].Validating}] = true
				for other := range budgets {
					if len(budgets) <= maxPaired && other < key && class.selected[other] {
						compared[selection{key, other, false}] = true
					}
				}
			}
		}
		if len(compared) > before {
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

// asks are the selectors that are asked about the object, and about a namespace of which
// nothing is known.
type asks func(*Profile) (object, namespace []inventory.Selector)

func asksObject(p *Profile) (object, namespace []inventory.Selector) {
	return []inventory.Selector{p.ObjectSelector}, nil
}

// maxAsked bounds how many selectors of one chain are compared with each other: those of
// the webhooks that cost most.
const maxAsked = 32

// together splits the webhooks into those that one object can meet, the costliest first. Any
// two that one object can meet are in one of those: the costliest alone may exclude others.
func (b costIndex) together(called []*Profile, asks asks) [][]*Profile {
	bySelector := map[string][]*Profile{}
	for _, p := range called {
		key := p.ObjectSelector.Key
		if object, namespace := asks(p); len(object)+len(namespace) > 1 {
			key += " " + p.NamespaceSelector.Key
		}
		bySelector[key] = append(bySelector[key], p)
	}
	keys := slices.SortedFunc(maps.Keys(bySelector), func(x, y string) int {
		return cmp.Or(cmp.Compare(budgetOf(bySelector[y], admission.Delete).Total(),
			budgetOf(bySelector[x], admission.Delete).Total()), cmp.Compare(x, y))
	})
	keys = keys[:min(len(keys), maxAsked)]
	joined := func(order []string) (group []string) {
		var objects, namespaces []inventory.Selector
		for _, key := range order {
			object, namespace := asks(bySelector[key][0])
			object, namespace = slices.Concat(objects, object), slices.Concat(namespaces, namespace)
			if !slices.Contains(group, key) && b.work.step() &&
				admission.OneObject(object...) && admission.OneNamespace(namespace...) {
				objects, namespaces, group = object, namespace, append(group, key)
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
				group = append(group, bySelector[key]...)
				for _, other := range members {
					grouped[[2]string{key, other}] = true
				}
			}
			out = append(out, group)
		}
	}
	return out
}

// findCosts computes what the critical resources cost, and adds each exceeded
// budget of the Policy to the webhooks of the chain.
func (p *Policy) findCosts(w *work, r *Report) {
	critical := distinctResources(p.Classes[ClassCritical])
	resources := slices.Clone(critical)
	for _, allowed := range p.Budgets {
		resources = append(resources, allowed.Resource)
	}
	b := newCostIndex(w, r.Matcher, r.Profiles, resources)
	if w.ended {
		return
	}
	for _, allowed := range p.Budgets {
		var worst chainCost // one operation is enough to act on
		for _, c := range b.costs([]inventory.Resource{allowed.Resource}) {
			exceeds := allowed.Seconds > 0 && c.Total() > secondsOf(allowed.Seconds) ||
				allowed.Webhooks > 0 && c.Webhooks > allowed.Webhooks
			if exceeds && c.Total() > worst.Total() {
				worst = c
			}
		}
		for _, member := range worst.chain {
			member.Excesses = append(member.Excesses, Excess{worst.Cost, allowed})
		}
	}
	for _, cost := range b.costs(critical) {
		r.Costs = append(r.Costs, cost.Cost)
	}
	r.Errors = append(r.Errors, b.errors...)
}

var budgetExceeded = &Check{
	Name:     "budget-exceeded",
	Summary:  "The webhooks of one request take longer, or are more, than the Policy allows.",
	Severity: Warning,
	Alerts:   map[Severity]string{Warning: "WebhookBudgetExceeded"},
	For:      15 * time.Minute,
	Find: func(p *Profile) []Problem {
		var out []Problem
		for _, e := range p.Excesses {
			tooMany := e.Allowed.Webhooks > 0 && e.Webhooks > e.Allowed.Webhooks
			if !tooMany && !p.takesTime(e.Budget) {
				continue
			}
			cutShort := ""
			if limit, after, ended := admission.End(p.Matcher.Limits(e.Operation, e.Resource), e.Budget); ended {
				cutShort = fmt.Sprintf(", or are cut short after %s (%s)", text.Seconds(after), limit)
			}
			out = append(out, Problem{
				Resource: e.Resource,
				Message: fmt.Sprintf("is one of %d webhooks that %s meets, which wait %s at worst%s: the budget allows %s",
					e.Webhooks, where(e.Cost), text.Seconds(e.Total()), cutShort, allowance(e.Allowed)),
				Fix: fmt.Sprintf("shorten its timeoutSeconds (now %s), take %s out of its %s, or register fewer webhooks for it; what takes how long: %s%s",
					text.Seconds(p.Timeout), quoted(e.Resource.String()), rulesFor(p, []inventory.Resource{e.Resource}),
					explainCommand(e.Cost), byOwner(p)),
			})
		}
		return out
	},
}

// takesTime reports whether the chain takes less time without the webhook: of the validating ones,
// which are called at once, only the slowest take time.
func (f *Profile) takesTime(chain admission.Budget) bool {
	return f.Type == inventory.Mutating || f.Timeout == chain.Validating
}

func where(c Cost) string {
	content := fmt.Sprintf("%s of %s", c.Operation, c.Resource)
	if c.Namespace != "" {
		content += " in namespace " + c.Namespace
	}
	return content
}

func allowance(b Budget) string {
	var words []string
	if b.Seconds > 0 {
		words = append(words, fmt.Sprintf("%d s", b.Seconds))
	}
	if b.Webhooks > 0 {
		words = append(words, fmt.Sprintf("%d webhooks", b.Webhooks))
	}
	return sentence(words, 0)
}
