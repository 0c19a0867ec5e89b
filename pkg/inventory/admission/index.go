package admission

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// MatchedResource is a resource for which a webhook is called: some request that the
// server can serve would be sent.
type MatchedResource struct {
	inventory.Resource
	Namespaced bool
	// Operations are those that the server serves and a rule asks for.
	Operations Operations
	// Named says that a rule spells the resource, rather than a wildcard.
	Named bool
}

// index finds the resources that a rule matches without looking at every resource
// for every rule. A rule covers entries, versions of resources; each leads to
// targets, the resources for which a webhook with the rule is called.
type index struct {
	targets []target
	entries []entry
	// byName are the indexes in entries of a resource with its subresources.
	byName map[inventory.Resource][]int
	// at finds the target of a resource.
	at map[inventory.Resource]int
	// kinds are the resources of the served kinds.
	kinds map[Kind]apiVersion
	// preferred is the best version of each group with CRDs.
	preferred map[string]string
	// stored are all versions of what is stored as one.
	stored   map[inventory.Resource][]apiVersion
	programs programs
	matched  *memo[matchFactsKey, []MatchedResource]
	failing  *memo[matchFactsKey, []FailingCondition]
	// failingPolicies are the same of policies.
	failingPolicies *memo[*inventory.AdmissionPolicy, []FailingCondition]
}

// target is a served resource in all its versions.
type target struct {
	inventory.Resource
	namespaced bool
	operations Operations
	// admitted are those that its requests can be to admission.
	admitted Operations
	// exempt says that the API server calls no webhook for it.
	exempt bool
}

// entry is one version of a resource that a rule may cover.
type entry struct {
	apiVersion
	// exact are the targets matched through this version itself: none for a
	// version that a CRD declares without serving it.
	exact []int
	// equivalent are the targets stored as one with it.
	equivalent []int
}

// each calls visit with the entries that the rule covers, whatever their version. Where
// the rule has names alone, no others are compared.
func (x *index) each(rule *admissionv1.RuleWithOperations, visit func(*entry)) {
	wildcard := func(name string) bool { return strings.HasPrefix(name, "*") }
	if slices.ContainsFunc(rule.APIGroups, wildcard) || slices.ContainsFunc(rule.Resources, wildcard) {
		for i := range x.entries {
			if e := &x.entries[i]; CoversGroup(rule, e.Group) && coversName(rule.Resources, e.Resource) {
				visit(e)
			}
		}
		return
	}
	named := map[inventory.Resource]bool{}
	for _, group := range rule.APIGroups {
		for _, r := range rule.Resources {
			name, _, _ := strings.Cut(r, "/")
			named[inventory.Resource{Group: group, Name: name}] = true
		}
	}
	for r := range named {
		for _, i := range x.byName[r] {
			if coversName(rule.Resources, x.entries[i].Resource) {
				visit(&x.entries[i])
			}
		}
	}
}

func newIndex(s *inventory.Snapshot, p programs) *index {
	x := &index{
		byName: map[inventory.Resource][]int{},
		at:     map[inventory.Resource]int{},
		stored: map[inventory.Resource][]apiVersion{},

		kinds:    map[Kind]apiVersion{},
		programs: p,
		matched:  newMemo[matchFactsKey, []MatchedResource](),
		failing:  newMemo[matchFactsKey, []FailingCondition](),

		failingPolicies: newMemo[*inventory.AdmissionPolicy, []FailingCondition](),
	}
	exempt := NeverSent(s, inventory.Ref{Type: inventory.Validating})
	byStorage := map[inventory.Resource][]int{}
	for _, served := range s.Served {
		i, seen := x.at[served.Resource]
		if !seen {
			i = len(x.targets)
			x.at[served.Resource] = i
			x.targets = append(x.targets, target{
				Resource:   served.Resource,
				namespaced: served.Namespaced,
				exempt:     slices.Contains(exempt, served.Parent()),
			})
			key := storedAs(served.Resource)
			byStorage[key] = append(byStorage[key], i)
		}
		x.targets[i].operations |= operationsOf(OperationsOn(served)...)
		x.targets[i].admitted = x.targets[i].operations
		if createdByUpdate[served.Resource] {
			x.targets[i].admitted |= operationBits[Create]
		}
	}
	for _, v := range versions(s) {
		e := entry{apiVersion: v, equivalent: byStorage[storedAs(v.Resource)]}
		if v.Served {
			e.exact = []int{x.at[v.Resource]}
			if v.Subresource == "" {
				x.kinds[v.Kind] = v
			}
		}
		x.byName[v.Parent()] = append(x.byName[v.Parent()], len(x.entries))
		x.entries = append(x.entries, e)
		x.stored[storedAs(v.Resource)] = append(x.stored[storedAs(v.Resource)], v)
	}
	x.preferred = preferredVersions(s.CRDs)
	return x
}

// next begins the next Snapshot.
func (x *index) next() {
	x.programs.next()
	x.matched.next()
	x.failing.next()
	x.failingPolicies.next()
}

// versions are all versions of all served resources, and those that CRDs
// declare but do not serve: a rule on them reaches the served ones by
// equivalence.
func versions(s *inventory.Snapshot) []apiVersion {
	kinds := map[inventory.Resource]string{}
	for _, served := range s.Served {
		if served.Subresource == "" {
			kinds[served.Resource] = served.Kind
		}
	}
	out := make([]apiVersion, 0, len(s.Served))
	serves := map[inventory.Resource]bool{}
	for _, served := range s.Served {
		serves[served.Resource] = true
		out = append(out, apiVersion{served.Resource, served.Version, kindOf(served, kinds[served.Parent()]), served.Namespaced, true})
	}
	for _, c := range s.CRDs {
		for _, v := range declaredVersions(c) {
			if serves[v.Resource] {
				out = append(out, v)
			}
		}
	}
	return out
}

// declaredVersions are the versions that the CRD declares without serving them.
func declaredVersions(c *inventory.CRD) []apiVersion {
	var out []apiVersion
	for _, v := range c.Versions {
		if v.Served {
			continue
		}
		for _, r := range v.Resources {
			out = append(out, apiVersion{r.Resource, v.Name, kindOf(r, c.CustomKind), c.Namespaced, false})
		}
	}
	return out
}

// exempt reports whether the API server calls no webhook for the resource.
func (x *index) exempt(r inventory.Resource) bool {
	i, ok := x.at[r]
	return ok && x.targets[i].exempt
}

// operations returns what the API server serves of the resource.
func (x *index) operations(r inventory.Resource) Operations {
	if i, ok := x.at[r]; ok {
		return x.targets[i].operations
	}
	return 0
}

// Operations returns the admission operations that the server can meet on the
// resource; none where it does not serve it.
func (m *Matcher) Operations(r inventory.Resource) []Operation {
	return m.index.operations(r).List()
}

// servedVersions returns the versions in which requests can be made.
func (x *index) servedVersions(r inventory.Resource) []apiVersion {
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

// MatchedResources returns the resources for which the webhook is called, sorted. What is
// not known of a request takes nothing away: selectors and matchConditions
// exclude only what they provably exclude. Webhooks that ask for the same share
// the result, which must not be written to.
func (m *Matcher) MatchedResources(w *inventory.Webhook) []MatchedResource {
	if w.Type == inventory.Conversion {
		return []MatchedResource{{Resource: w.CRD.Resource, Namespaced: w.CRD.Namespaced, Operations: operationsOf(Create, Update, Delete), Named: true}}
	}
	key := newMatchFactsKey(w)
	return m.index.matched.getOrCompute(key, func() []MatchedResource { return m.matchedResources(w, key.selected) })
}

// matchFactsKey is the same for webhooks that match the same.
type matchFactsKey struct {
	rules      string
	selected   selectableOperations
	conditions string
}

func newMatchFactsKey(w *inventory.Webhook) matchFactsKey {
	return matchFactsKey{rulesKey(w), selectable(w), conditionsKey(w)}
}

// staticMark distinguishes what is read from disk, which sees more, from what is not.
const staticMark = "/static"

// rulesKey writes down what the rules say, each string with its length so that
// no two lists read alike.
func rulesKey(w *inventory.Webhook) string {
	key := append(make([]byte, 0, 256), w.MatchPolicy...)
	if w.Static() {
		key = append(key, staticMark...)
	}
	for i := range w.Rules {
		rule := &w.Rules[i]
		key = append(key, byte(RuleOperations(rule)))
		key = appendList(key, rule.APIGroups...)
		key = appendList(key, rule.APIVersions...)
		key = appendList(key, rule.Resources...)
		key = appendList(key, string(ptr.Deref(rule.Scope, admissionv1.AllScopes)))
	}
	return string(key)
}

// ruleMatch is what rules ask of a target.
type ruleMatch struct {
	operations Operations
	named      bool
}

func (m *Matcher) matchedResources(w *inventory.Webhook, selected selectableOperations) []MatchedResource {
	covered := m.covered(w, selected)
	if len(w.MatchConditions) == 0 {
		return covered
	}
	var out []MatchedResource
	for _, r := range covered {
		for _, op := range r.Operations.List() {
			if m.CallsFor(w, r.Resource, op, Subject{}) == No {
				r.Operations &^= operationBits[op]
			}
		}
		if r.Operations != 0 {
			out = append(out, r)
		}
	}
	return slices.Clip(out)
}

// covered returns what the rules and selectors let through, sorted. It costs the
// targets that the rules cover.
func (m *Matcher) covered(w *inventory.Webhook, selected selectableOperations) []MatchedResource {
	x := m.index
	matched := x.asked(w.Rules, w.MatchPolicy)
	out := make([]MatchedResource, 0, len(matched))
	for _, i := range slices.Sorted(maps.Keys(matched)) {
		t, match := &x.targets[i], matched[i]
		if ops := match.operations & selected.of(t); ops != 0 && !neverSees(w.Ref, t.exempt, t.Resource) {
			out = append(out, MatchedResource{t.Resource, t.namespaced, ops, match.named})
		}
	}
	return slices.Clip(out)
}

// asked is what the rules ask for, by the index of the target.
func (x *index) asked(rules []admissionv1.RuleWithOperations, policy admissionv1.MatchPolicyType) map[int]ruleMatch {
	out := map[int]ruleMatch{}
	for i := range rules {
		x.matches(&rules[i], policy, func(target int, ops Operations, named bool) {
			match := out[target]
			out[target] = ruleMatch{match.operations | ops, match.named || named}
		})
	}
	return out
}

// RulesFor returns the indexes of the webhook's rules that cover one of the
// resources, itself or by equivalence.
func (m *Matcher) RulesFor(w *inventory.Webhook, resources []inventory.Resource) []int {
	if len(w.Rules) == 1 {
		return []int{0}
	}
	x := m.index
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

// unresolvedKind is the kind in which webhooks get the object, whatever their rules.
func (r Request) unresolvedKind() Kind {
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
func selectable(w *inventory.Webhook) selectableOperations {
	all := allOperations
	switch {
	case anyLabels.match(w.ObjectSelector) == No:
		all = 0
	case !w.ObjectSelector.Empty():
		all &^= operationBits[Connect]
	}
	o := selectableOperations{all, all, all}
	if anyNamespaceLabels.match(w.NamespaceSelector) == No {
		o.namespaced = 0
	}
	if anyLabels.match(w.NamespaceSelector) == No {
		o.namespaces = 0
	}
	return o
}

// CallsFor says whether the matchConditions let requests of the user through, of which
// no more is known than the resource and operation.
func (m *Matcher) CallsFor(w *inventory.Webhook, r inventory.Resource, op Operation, subject Subject) Match {
	if len(w.MatchConditions) == 0 {
		return Yes
	}
	out := No
	for _, v := range m.index.servedVersions(r) {
		request := m.cachedRequest(v, op, subject)
		switch request.matchConditions(&w.Registration, request.stageOf(w.Type, request.unresolvedKind())).Match {
		case Yes:
			return Yes
		case Maybe:
			out = Maybe
		}
	}
	return out
}

// matches calls visit with each target that the rule covers, itself or by
// equivalence, with the operations and whether the rule spells its name.
func (x *index) matches(rule *admissionv1.RuleWithOperations, policy admissionv1.MatchPolicyType, visit func(target int, ops Operations, named bool)) {
	ops := RuleOperations(rule)
	x.each(rule, func(e *entry) {
		if !CoversVersion(rule, e.Version) || !coversScope(rule.Scope, e.Resource, e.Namespaced) {
			return
		}
		targets := e.equivalent
		if policy == admissionv1.Exact {
			targets = e.exact
		}
		for _, i := range targets {
			visit(i, ops&x.targets[i].admitted, names(rule.Resources, e.Resource))
		}
	})
}
