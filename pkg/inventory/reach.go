package inventory

import (
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// Reached is a resource for which a webhook is called: some request that the
// server can serve would be sent.
type Reached struct {
	Resource
	Namespaced bool
	// Operations are those that the server serves and a rule asks for.
	Operations Operations
	// Named says that a rule spells the resource, rather than a wildcard.
	Named bool
}

// index answers the set question "which resources does this rule cover"
// without looking at every resource for every rule, and knows what is stored as
// one.
type index struct {
	targets []target
	groups  map[string]*groupEntries
	// groupNames are the keys of groups.
	groupNames []string
	// at finds the target of a resource, and byName all that go by a name.
	at     map[Resource]int
	byName map[string][]int
	// preferred is the best version of each group with CRDs.
	preferred map[string]string
	// stored are all versions of what is stored as one.
	stored   map[Resource][]apiVersion
	programs *programs
	asked    *answers[question, Request]
	sets     *answers[setQuestion, bool]
	reached  *answers[reachKey, []Reached]
	failing  *answers[reachKey, []FailingCondition]
}

// target is a served resource in all its versions.
type target struct {
	Resource
	namespaced bool
	operations Operations
	never      bool
	// aliases are other names, in lower case.
	aliases []string
}

// entry is one version of a resource that a rule may cover.
type entry struct {
	apiVersion
	// exact are the targets reached through this version itself: none for a
	// version that a CRD declares without serving it.
	exact []int
	// equivalent are the targets stored as one with it.
	equivalent []int
}

// groupEntries are those of one group, in the order of what is served.
type groupEntries struct {
	all []entry
	// byName are the places of a resource with its subresources.
	byName map[string][]int
}

func (g *groupEntries) add(e entry) {
	g.byName[e.Name] = append(g.byName[e.Name], len(g.all))
	g.all = append(g.all, e)
}

// each calls visit with the entries that a rule's resources cover, whatever
// their version, each once. Where the rule spells names, no others are looked at.
func (g *groupEntries) each(resources []string, visit func(*entry)) {
	if g == nil {
		return
	}
	if slices.ContainsFunc(resources, func(r string) bool { return strings.HasPrefix(r, "*") }) {
		for i := range g.all {
			if coversName(resources, g.all[i].Resource) {
				visit(&g.all[i])
			}
		}
		return
	}
	for n, r := range resources {
		name, _, _ := strings.Cut(r, "/")
		earlier := func(other string) bool { before, _, _ := strings.Cut(other, "/"); return before == name }
		if slices.ContainsFunc(resources[:n], earlier) {
			continue
		}
		for _, i := range g.byName[name] {
			if coversName(resources, g.all[i].Resource) {
				visit(&g.all[i])
			}
		}
	}
}

// lookup returns the Snapshot's index. Only a Snapshot that was not made of
// Objects has none.
func (s *Snapshot) lookup() *index {
	if s.index == nil {
		return newIndex(s)
	}
	return s.index
}

func newIndex(s *Snapshot) *index {
	x := (&index{
		groups: map[string]*groupEntries{},
		at:     map[Resource]int{},
		stored: map[Resource][]apiVersion{},
	}).forgetful()
	never := s.NeverSent()
	byStorage := map[Resource][]int{}
	for _, served := range s.Served {
		i, seen := x.at[served.Resource]
		if !seen {
			i = len(x.targets)
			x.at[served.Resource] = i
			x.targets = append(x.targets, target{
				Resource:   served.Resource,
				namespaced: served.Namespaced,
				never:      slices.Contains(never, served.Parent()),
				aliases:    s.aliases(served),
			})
			key := storedAs(served.Resource)
			byStorage[key] = append(byStorage[key], i)
		}
		x.targets[i].operations |= OperationsOf(served.Operations()...)
	}
	for _, v := range s.versions() {
		e := entry{apiVersion: v, equivalent: byStorage[storedAs(v.Resource)]}
		if v.Served {
			e.exact = []int{x.at[v.Resource]}
		}
		if x.groups[v.Group] == nil {
			x.groups[v.Group] = &groupEntries{byName: map[string][]int{}}
		}
		x.groups[v.Group].add(e)
		x.stored[storedAs(v.Resource)] = append(x.stored[storedAs(v.Resource)], v)
	}
	x.groupNames = slices.Collect(maps.Keys(x.groups))
	x.indexNames()
	x.preferred = preferredVersions(s.CRDs)
	return x
}

// forgetful returns the index without the answers: they depend on the webhooks
// and the namespaces.
func (x *index) forgetful() *index {
	out := *x
	out.programs = newPrograms()
	out.asked = newAnswers[question, Request]()
	out.sets = newAnswers[setQuestion, bool]()
	out.reached = newAnswers[reachKey, []Reached]()
	out.failing = newAnswers[reachKey, []FailingCondition]()
	return &out
}

// aliases are the singular and, for CRDs, the short names.
func (s *Snapshot) aliases(served Served) []string {
	out := []string{strings.ToLower(served.Kind)}
	if crd := s.CRDs[served.Name+"."+served.Group]; crd != nil {
		out = append(out, crd.Aliases...)
	}
	return out
}

// versions are all versions of all served resources, and those that CRDs
// declare but do not serve: a rule on them reaches the served ones by
// equivalence.
func (s *Snapshot) versions() []apiVersion {
	kinds := map[Resource]string{}
	for _, served := range s.Served {
		if served.Subresource == "" {
			kinds[served.Resource] = served.Kind
		}
	}
	out := make([]apiVersion, 0, len(s.Served))
	serves := map[Resource]bool{}
	for _, served := range s.Served {
		serves[served.Resource] = true
		out = append(out, apiVersion{served.Resource, served.Version, kindOf(served, kinds[served.Parent()]), served.Namespaced, true})
	}
	for _, c := range s.CRDs {
		for _, v := range c.declared() {
			if serves[v.Resource] {
				out = append(out, v)
			}
		}
	}
	return out
}

// declared are the versions that the CRD declares without serving them.
func (c *CRD) declared() []apiVersion {
	var out []apiVersion
	for _, v := range c.Versions {
		if v.Served {
			continue
		}
		for _, sub := range append([]string{""}, v.Subresources...) {
			served := Served{Resource: Resource{c.Resource.Group, c.Resource.Name, sub}, Version: v.Name, Kind: c.kindOf(sub)}
			out = append(out, apiVersion{served.Resource, v.Name, kindOf(served, c.CustomKind), c.Namespaced, false})
		}
	}
	return out
}

// never reports whether the API server calls no webhook for the resource.
func (x *index) never(r Resource) bool {
	i, ok := x.at[r]
	return ok && x.targets[i].never
}

// operations returns what the API server serves of the resource.
func (x *index) operations(r Resource) Operations {
	if i, ok := x.at[r]; ok {
		return x.targets[i].operations
	}
	return 0
}

// Operations returns the admission operations that the server can meet on the
// resource; none where it does not serve it.
func (s *Snapshot) Operations(r Resource) []Operation { return s.lookup().operations(r).List() }

// servedVersions returns the versions in which requests can be made.
func (x *index) servedVersions(r Resource) []apiVersion {
	var out []apiVersion
	for _, v := range x.stored[storedAs(r)] {
		if v.Served && v.Resource == r {
			out = append(out, v)
		}
	}
	return out
}

// equivalents returns the other versions of what is stored as one with v.
func (x *index) equivalents(v apiVersion) []apiVersion {
	var out []apiVersion
	for _, other := range x.stored[storedAs(v.Resource)] {
		if other.Resource != v.Resource || other.Version != v.Version {
			out = append(out, other)
		}
	}
	return out
}

// Reach returns the resources for which the webhook is called, sorted. What is
// not known of a request takes nothing away: selectors and matchConditions
// exclude only what they provably exclude. Webhooks that ask for the same share
// the result, which must not be written to.
func (s *Snapshot) Reach(w *Webhook) []Reached {
	if w.Type == Conversion {
		return []Reached{{Resource: w.CRD.Resource, Namespaced: w.CRD.Namespaced, Operations: OperationsOf(Create, Update, Delete), Named: true}}
	}
	key := newReachKey(w)
	return s.lookup().reached.of(key, func() []Reached { return s.reach(w, key.selected) })
}

// reachKey identifies webhooks that ask for the same.
type reachKey struct {
	rules      string
	selected   selectableOperations
	conditions string
}

func newReachKey(w *Webhook) reachKey {
	return reachKey{rulesKey(w), selectable(w), conditionsKey(w)}
}

// rulesKey writes down what the rules say, each string with its length so that
// no two lists read alike.
func rulesKey(w *Webhook) string {
	key := append(make([]byte, 0, 256), w.MatchPolicy...)
	for i := range w.Rules {
		rule := &w.Rules[i]
		key = append(key, byte(ruleOperations(rule)))
		key = appendList(key, rule.APIGroups...)
		key = appendList(key, rule.APIVersions...)
		key = appendList(key, rule.Resources...)
		key = appendList(key, string(orDefault(rule.Scope, admissionv1.AllScopes)))
	}
	return string(key)
}

// hit is what rules ask of a target.
type hit struct {
	operations Operations
	named      bool
}

func (s *Snapshot) reach(w *Webhook, selected selectableOperations) []Reached {
	var out []Reached
	for _, r := range s.covered(w, selected) {
		if r.Operations = s.conditional(w, r.Resource, r.Operations); r.Operations != 0 {
			out = append(out, r)
		}
	}
	return slices.Clip(out)
}

// covered returns what the rules and selectors let through, sorted. It costs the
// targets that the rules cover.
func (s *Snapshot) covered(w *Webhook, selected selectableOperations) []Reached {
	x := s.lookup()
	hits := map[int]hit{}
	for i := range w.Rules {
		x.matches(&w.Rules[i], w.MatchPolicy, func(target int, ops Operations, named bool) {
			h := hits[target]
			hits[target] = hit{h.operations | ops, h.named || named}
		})
	}
	out := make([]Reached, 0, len(hits))
	for _, i := range slices.Sorted(maps.Keys(hits)) {
		t, h := &x.targets[i], hits[i]
		if ops := h.operations & selected.of(t); !t.never && ops != 0 {
			out = append(out, Reached{t.Resource, t.namespaced, ops, h.named})
		}
	}
	return slices.Clip(out)
}

// RulesFor returns the places of the webhook's rules that cover one of the
// resources, itself or by equivalence.
func (s *Snapshot) RulesFor(w *Webhook, resources []Resource) []int {
	if len(w.Rules) == 1 {
		return []int{0}
	}
	x := s.lookup()
	wanted := make(map[int]bool, len(resources))
	for _, r := range resources {
		if at, served := x.at[r]; served {
			wanted[at] = true
		}
	}
	var out []int
	for i := range w.Rules {
		covered := false
		x.matches(&w.Rules[i], w.MatchPolicy, func(target int, ops Operations, _ bool) {
			covered = covered || ops != 0 && wanted[target]
		})
		if covered {
			out = append(out, i)
		}
	}
	return out
}

// anyKind is the kind in which webhooks get the object, whatever their rules.
func (r Request) anyKind() Kind {
	if len(r.equivalents) == 0 {
		return r.Kind
	}
	return Kind{Kind: r.Kind.Kind, Unsure: true}
}

// selectableOperations are those on which the selectors of a webhook can let
// requests through, by what the request is about.
type selectableOperations struct{ namespaced, namespaces, cluster Operations }

func (o selectableOperations) of(t *target) Operations {
	switch {
	case t.Name == "namespaces":
		return o.namespaces
	case t.namespaced:
		return o.namespaced
	}
	return o.cluster
}

// selectable: the options of a CONNECT carry no labels, so that an
// objectSelector never matches them; a namespaceSelector exempts no
// cluster-scoped resource, but Namespaces by their own labels.
func selectable(w *Webhook) selectableOperations {
	all := allOperations
	switch {
	case w.ObjectSelector.match(anyLabels) == No:
		all = 0
	case !w.ObjectSelector.Empty():
		all &^= operationBits[Connect]
	}
	o := selectableOperations{all, all, all}
	if w.NamespaceSelector.match(anyNamespaceLabels) == No {
		o.namespaced = 0
	}
	if w.NamespaceSelector.match(anyLabels) == No {
		o.namespaces = 0
	}
	return o
}

// conditional takes away the operations that the matchConditions exclude in
// every version of the resource.
func (s *Snapshot) conditional(w *Webhook, r Resource, ops Operations) Operations {
	if len(w.MatchConditions) == 0 {
		return ops
	}
	x := s.lookup()
	conditions := conditionsKey(w)
	for _, op := range ops.List() {
		possible := x.sets.of(setQuestion{conditions, r, op}, func() bool { return s.possible(w, r, op) })
		if !possible {
			ops &^= operationBits[op]
		}
	}
	return ops
}

// setQuestion asks whether the matchConditions can let any request through.
type setQuestion struct {
	conditions string
	Resource
	op Operation
}

// possible asks the matchConditions about a request of which nothing is known
// but its resource and operation.
func (s *Snapshot) possible(w *Webhook, r Resource, op Operation) bool {
	for _, v := range s.lookup().servedVersions(r) {
		request := s.ask(v, op, Subject{})
		if request.conditions(w, request.anyKind()).Called != No {
			return true
		}
	}
	return false
}

// covered returns the served groups that a rule's list covers.
func (x *index) covered(groups []string) []string {
	if slices.Contains(groups, "*") {
		return x.groupNames
	}
	return groups
}

// matches calls mark with each target that the rule covers, itself or by
// equivalence, with the operations and whether the rule spells its name.
func (x *index) matches(rule *admissionv1.RuleWithOperations, policy admissionv1.MatchPolicyType, mark func(target int, ops Operations, named bool)) {
	ops := ruleOperations(rule)
	for _, group := range x.covered(rule.APIGroups) {
		x.groups[group].each(rule.Resources, func(e *entry) {
			if !covers(rule.APIVersions, e.Version) || !coversScope(rule.Scope, e.Resource, e.Namespaced) {
				return
			}
			targets := e.equivalent
			if policy == admissionv1.Exact {
				targets = e.exact
			}
			for _, i := range targets {
				mark(i, ops&x.targets[i].operations, names(rule.Resources, e.Resource))
			}
		})
	}
}
