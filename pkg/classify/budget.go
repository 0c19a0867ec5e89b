package classify

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

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
	// where the namespaces are not known.
	Namespace string
	admission.Budget
}

// chainCost is a Cost with the places of its webhooks among the profiles.
type chainCost struct {
	Cost
	chain []int
}

// Excess is a budget of the Policy that requests exceed.
type Excess struct {
	Cost
	Allowed Budget
}

// costIndex maps resources to the webhooks that are called for them, with the
// namespaces that their selectors exempt.
type costIndex struct {
	work     *work
	matcher  *admission.Matcher
	snapshot *inventory.Snapshot
	profiles []Profile
	// chains are the places of the webhooks that a resource is sent to.
	chains map[inventory.Resource][]int
	// selector is the place of each webhook's namespaceSelector among all that
	// differ: large clusters have many webhooks and few selectors.
	selector  map[int]int
	selectors []inventory.Selector
	// usual says which selectors let a namespace through that carries no label
	// that any of them asks for.
	usual []bool
	// namespaces are one that all selectors treat as usual, and those that some
	// treat otherwise, sorted; none where they are not known, and one may exist
	// that all webhooks select.
	namespaces []unusualNamespace
}

// unusualNamespace is a namespace with the selectors that treat it otherwise
// than one without labels.
type unusualNamespace struct {
	name    string
	differs []int
}

// newCostIndex costs the webhooks and, for each selector, the namespaces with a label
// that it asks for.
func newCostIndex(w *work, m *admission.Matcher, profiles []Profile, resources []inventory.Resource) costIndex {
	b := costIndex{work: w, matcher: m, snapshot: m.Snapshot, profiles: profiles, chains: sentTo(profiles, resources), selector: map[int]int{}}
	known := map[string]int{}
	for _, r := range resources {
		for _, i := range b.chains[r] {
			if _, ok := b.selector[i]; !ok && w.step() {
				b.selector[i] = b.add(profiles[i].NamespaceSelector, known)
			}
		}
	}
	if m.Snapshot.NamespacesKnown {
		b.namespaces = b.findUnusualNamespaces()
	}
	return b
}

// findUnusualNamespaces finds the namespaces that some selector treats otherwise
// than one without labels, and one that is treated alike.
func (b *costIndex) findUnusualNamespaces() []unusualNamespace {
	names := map[string]map[string]string{}
	for _, name := range []string{"default", "kube-system"} { // in every cluster
		names[name], _ = b.snapshot.NamespaceLabels(name)
	}
	wanted := map[label]bool{}
	for _, selector := range b.selectors {
		requirements, _ := selector.Parsed.Requirements()
		for _, r := range requirements {
			for _, l := range labelsOf(r) {
				wanted[l] = true
			}
		}
		b.usual = append(b.usual, selector.Parsed.Matches(labels.Set{corev1.LabelMetadataName: "*"}))
	}
	carrying := map[label][]string{}
	for name, namespace := range b.snapshot.Namespaces {
		names[name] = namespace.Labels
	}
	for name, known := range names {
		for key, value := range known {
			if l := (label{key, value}); wanted[l] {
				carrying[l] = append(carrying[l], name)
			}
			if l := anyValue(key); wanted[l] && key != corev1.LabelMetadataName {
				carrying[l] = append(carrying[l], name)
			}
		}
	}
	differs := map[string][]int{}
	for i := range b.selectors {
		for _, name := range unusualFor(b.selectors[i], b.usual[i], carrying) {
			if b.work.step() && b.selectors[i].Parsed.Matches(labels.Set(names[name])) != b.usual[i] {
				differs[name] = append(differs[name], i)
			}
		}
	}
	return unusual(names, differs)
}

// unusual are the first namespace that is usual, and all others, by name.
func unusual(names map[string]map[string]string, differs map[string][]int) []unusualNamespace {
	var out []unusualNamespace
	first, found := "", false
	for name := range names {
		switch {
		case len(differs[name]) > 0:
			out = append(out, unusualNamespace{name, differs[name]})
		case !found || name < first:
			first, found = name, true
		}
	}
	if found {
		out = append(out, unusualNamespace{name: first})
	}
	slices.SortFunc(out, func(a, b unusualNamespace) int { return cmp.Compare(a.name, b.name) })
	return out
}

// label is a label of a namespace.
type label struct{ key, value string }

// anyValue stands for a label whatever its value: none is that long.
func anyValue(key string) label { return label{key, strings.Repeat("*", 64)} }

// unusualFor are the namespaces that the selector may treat otherwise than one
// without labels: those that carry a value that it lists, or a label that it asks
// for. Where it lets others not through, those that fulfill its rarest
// requirement are enough.
func unusualFor(selector inventory.Selector, usual bool, carrying map[label][]string) []string {
	requirements, _ := selector.Parsed.Requirements()
	var out []string
	first := true
	for _, r := range requirements {
		var these []string
		for _, l := range labelsOf(r) {
			these = append(these, carrying[l]...)
		}
		switch {
		case usual:
			out = append(out, these...)
		case !asksForLabel(r) || r.Key() == corev1.LabelMetadataName && r.Operator() == selection.Exists:
		case first || len(these) < len(out):
			out, first = these, false
		}
	}
	return text.Distinct(out)
}

// asksForLabel reports whether the requirement lets nothing through that does
// not carry the label.
func asksForLabel(r labels.Requirement) bool {
	switch r.Operator() {
	case selection.In, selection.Equals, selection.DoubleEquals, selection.Exists:
		return true
	}
	return false
}

// labelsOf are the labels that decide the requirement.
func labelsOf(r labels.Requirement) []label {
	if r.Operator() == selection.Exists || r.Operator() == selection.DoesNotExist {
		return []label{anyValue(r.Key())}
	}
	var out []label
	for _, value := range r.ValuesUnsorted() {
		out = append(out, label{r.Key(), value})
	}
	return out
}

// sentTo returns the places of the webhooks that each resource is sent to.
// Webhooks that ask for the same share what they match, so that it is looked
// through once.
func sentTo(profiles []Profile, resources []inventory.Resource) map[inventory.Resource][]int {
	out := map[inventory.Resource][]int{}
	known := map[*admission.MatchedResource][]inventory.Resource{}
	for i := range profiles {
		p := &profiles[i]
		if len(p.Matched) == 0 || p.Type == inventory.Conversion {
			continue
		}
		first := &p.Matched[0]
		matched, ok := known[first]
		if !ok {
			matched = matchedOf(p.Matched, resources)
			known[first] = matched
		}
		for _, r := range matched {
			out[r] = append(out[r], i)
		}
	}
	return out
}

// matchedOf are those of the resources that are matched, each once.
func matchedOf(matched []admission.MatchedResource, resources []inventory.Resource) []inventory.Resource {
	var out []inventory.Resource
	for _, r := range resources {
		if _, found := find(matched, r); found && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

func find(sorted []admission.MatchedResource, r inventory.Resource) (int, bool) {
	return slices.BinarySearchFunc(sorted, r, func(matched admission.MatchedResource, r inventory.Resource) int {
		return matched.Resource.Compare(r)
	})
}

// add returns the place of the selector among those that differ.
func (b *costIndex) add(selector inventory.Selector, known map[string]int) int {
	place, ok := known[selector.Key]
	if !ok {
		place = len(b.selectors)
		known[selector.Key] = place
		b.selectors = append(b.selectors, selector)
	}
	return place
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

// worst finds the namespace where the requests cost most: what they cost in a
// usual one, changed by the selectors that treat it otherwise.
func (b costIndex) worst(r inventory.Resource, op admission.Operation) chainCost {
	chain, namespaced := b.called(r, op)
	bySelector := make([]admission.Budget, len(b.selectors))
	for _, i := range chain {
		bySelector[b.selector[i]] = bySelector[b.selector[i]].Add(b.profiles[i].Webhook, op)
	}
	everywhere := admission.Budget{}
	for _, here := range bySelector {
		everywhere = everywhere.Plus(here)
	}
	if !namespaced || len(b.namespaces) == 0 {
		return chainCost{Cost{Resource: r, Operation: op, Budget: everywhere}, chain}
	}
	usual := b.usualCosts(bySelector)
	worst := 0
	var budget admission.Budget
	for n, namespace := range b.namespaces {
		here := usual.in(namespace)
		if cmp.Or(cmp.Compare(here.Total(), budget.Total()), cmp.Compare(here.Webhooks, budget.Webhooks)) > 0 {
			worst, budget = n, here
		}
	}
	chain = slices.DeleteFunc(chain, func(i int) bool { return !b.selects(b.namespaces[worst], b.selector[i]) })
	return chainCost{Cost{r, op, b.namespaces[worst].name, budget}, chain}
}

// selects reports whether the selector lets the namespace through.
func (b costIndex) selects(n unusualNamespace, selector int) bool {
	_, differs := slices.BinarySearch(n.differs, selector)
	return b.usual[selector] != differs
}

// usualCosts are what the requests cost in a usual namespace.
type usualCosts struct {
	bySelector []admission.Budget
	usual      []bool
	sum        admission.Budget
	// slowest are the selectors that let a usual namespace through, by their
	// slowest validating webhook.
	slowest []int
}

func (b costIndex) usualCosts(bySelector []admission.Budget) usualCosts {
	c := usualCosts{bySelector: bySelector, usual: b.usual}
	for i, here := range bySelector {
		if b.usual[i] && here.Webhooks > 0 {
			c.sum = c.sum.Plus(here)
			c.slowest = append(c.slowest, i)
		}
	}
	slices.SortFunc(c.slowest, func(i, j int) int { return cmp.Compare(bySelector[j].Validating, bySelector[i].Validating) })
	return c
}

// in is what they cost in a namespace. It costs the selectors that treat it
// otherwise.
func (c usualCosts) in(n unusualNamespace) admission.Budget {
	out := c.sum
	out.Validating = 0
	for _, i := range n.differs {
		here := c.bySelector[i]
		if c.usual[i] {
			out.Mutating -= here.Mutating
			out.Reinvocable -= here.Reinvocable
			out.Webhooks -= here.Webhooks
			continue
		}
		out = out.Plus(here)
	}
	for _, i := range c.slowest {
		if _, differs := slices.BinarySearch(n.differs, i); !differs {
			out.Validating = max(out.Validating, c.bySelector[i].Validating)
			break
		}
	}
	return out
}

// called returns the webhooks that the operation may meet in some namespace.
func (b costIndex) called(r inventory.Resource, op admission.Operation) (chain []int, namespaced bool) {
	for _, i := range b.chains[r] {
		matched := b.profiles[i].Matched
		at, _ := find(matched, r)
		if matched[at].Operations.Has(op) {
			chain, namespaced = append(chain, i), matched[at].Namespaced
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

// costedResources are those of which a cost is computed.
func (p *Policy) costedResources() []inventory.Resource {
	out := p.criticalResources()
	for _, allowed := range p.Budgets {
		out = append(out, allowed.Resource)
	}
	return out
}

// findCosts computes what the critical resources cost, and adds each exceeded
// budget of the Policy to the webhooks of the chain.
func (p *Policy) findCosts(w *work, m *admission.Matcher, profiles []Profile) []Cost {
	b := newCostIndex(w, m, profiles, p.costedResources())
	if w.ended {
		return nil
	}
	for _, allowed := range p.Budgets {
		cost, exceeds := worstExcess(b.costs([]inventory.Resource{allowed.Resource}), allowed)
		if !exceeds {
			continue
		}
		for _, i := range cost.chain {
			profiles[i].Excesses = append(profiles[i].Excesses, Excess{cost.Cost, allowed})
		}
	}
	var out []Cost
	for _, cost := range b.costs(p.criticalResources()) {
		out = append(out, cost.Cost)
	}
	return out
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
