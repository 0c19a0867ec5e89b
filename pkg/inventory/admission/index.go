package admission

import (
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

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
// for every rule.
type index struct {
	// targets finds the target of a resource, and storedAs those of all that is stored as one.
	targets  map[inventory.Resource]*target
	storedAs map[inventory.Resource][]*target
	// versions are all that a rule may cover, byName those of a resource with its
	// subresources, and stored those of what is stored as one.
	versions []apiVersion
	byName   map[inventory.Resource][]apiVersion
	stored   map[inventory.Resource][]apiVersion
	kinds    map[Kind]apiVersion
	// preferred is the best version of each group with CRDs.
	preferred map[string]string
	programs  programs
	// params are the objects of the input that may be params of a policy, by group and kind.
	params map[Kind][]inventory.Manifest
	// matched are those of webhooks by their MatchKeys.
	matched *memo[string, []MatchedResource]
	failing *memo[*inventory.Registration, []FailingCondition]
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

// each calls visit with the versions that the rule covers. Where the rule has names
// alone, no others are compared.
func (x *index) each(rule *admissionv1.RuleWithOperations, visit func(apiVersion)) {
	candidates := x.versions
	isWildcard := func(name string) bool { return strings.HasPrefix(name, "*") }
	if !slices.ContainsFunc(rule.APIGroups, isWildcard) && !slices.ContainsFunc(rule.Resources, isWildcard) {
		candidates = nil
		named := map[inventory.Resource]bool{}
		for _, group := range rule.APIGroups {
			for _, r := range rule.Resources {
				name, _, _ := strings.Cut(r, "/")
				if parent := (inventory.Resource{Group: group, Name: name}); !named[parent] {
					named[parent] = true
					candidates = append(candidates, x.byName[parent]...)
				}
			}
		}
	}
	for _, v := range candidates {
		if CoversGroup(rule, v.Group) && CoversVersion(rule, v.Version) && NamesResource(rule, v.Resource) {
			visit(v)
		}
	}
}

func newIndex(s *inventory.Snapshot, p programs) *index {
	x := &index{
		targets:   map[inventory.Resource]*target{},
		storedAs:  map[inventory.Resource][]*target{},
		versions:  versions(s),
		byName:    map[inventory.Resource][]apiVersion{},
		stored:    map[inventory.Resource][]apiVersion{},
		kinds:     map[Kind]apiVersion{},
		preferred: preferredVersions(s.CRDs),
		programs:  p,
		params:    map[Kind][]inventory.Manifest{},
		matched:   newMemo[string, []MatchedResource](),
		failing:   newMemo[*inventory.Registration, []FailingCondition](),
	}
	for _, p := range s.Policies {
		if p.ParamKind != nil {
			x.params[kindOfParams(p.ParamKind)] = nil
		}
	}
	for _, o := range s.Manifests {
		kind := Kind{Group: o.Group, Version: o.Version, Kind: o.Kind}
		if objects, ok := x.params[kind]; ok {
			x.params[kind] = append(objects, o)
		}
	}
	exempt := NeverSent(s, inventory.Ref{Type: inventory.Validating})
	for _, served := range s.Served {
		t, key := x.targets[served.Resource], storedAs(served.Resource)
		if t == nil {
			t = &target{
				Resource: served.Resource, namespaced: served.Namespaced,
				exempt: slices.Contains(exempt, served.Parent()),
			}
			x.targets[served.Resource] = t
			x.storedAs[key] = append(x.storedAs[key], t)
		}
		t.operations |= operationsOf(OperationsOn(served)...)
		t.admitted = t.operations
		if createdByUpdate.Has(served.Resource) {
			t.admitted |= operationBits[Create]
		}
	}
	for _, v := range x.versions {
		if v.Served && v.Subresource == "" {
			x.kinds[v.Kind] = v
		}
		key := storedAs(v.Resource)
		x.byName[v.Parent()] = append(x.byName[v.Parent()], v)
		x.stored[key] = append(x.stored[key], v)
	}
	return x
}

func (x *index) next() {
	x.programs.next()
	x.matched.next()
	x.failing.next()
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
		out = append(out, apiVersion{
			served.Resource, served.Version, kindOf(served, kinds[served.Parent()]), served.Namespaced, true,
		})
	}
	for _, c := range s.CRDs {
		for _, v := range c.Versions {
			for _, r := range v.Resources {
				if !v.Served && serves[r.Resource] {
					out = append(out, apiVersion{r.Resource, v.Name, kindOf(r, c.CustomKind), c.Namespaced, false})
				}
			}
		}
	}
	return out
}

// target is that of the resource; a zero one where the API server does not serve it.
func (x *index) target(r inventory.Resource) target {
	if t := x.targets[r]; t != nil {
		return *t
	}
	return target{}
}

// Operations returns the admission operations that the server can meet on the
// resource; none where it does not serve it.
func (m *Matcher) Operations(r inventory.Resource) []Operation {
	return m.index.target(r).operations.List()
}

func (x *index) servedVersions(r inventory.Resource) []apiVersion {
	return slices.DeleteFunc(slices.Clone(x.stored[storedAs(r)]), func(v apiVersion) bool {
		return !v.Served || v.Resource != r
	})
}

// equivalents returns the other versions of what is stored as one with v.
func (x *index) equivalents(v apiVersion) []apiVersion {
	return slices.DeleteFunc(slices.Clone(x.stored[storedAs(v.Resource)]), func(other apiVersion) bool {
		return other.Resource == v.Resource && other.Version == v.Version
	})
}

// MatchedResources returns the resources for which the webhook is called, sorted. What is
// not known of a request takes nothing away: selectors and matchConditions
// exclude only what they provably exclude. Webhooks that ask for the same share
// the result, which must not be written to.
func (m *Matcher) MatchedResources(w *inventory.Webhook) []MatchedResource {
	if w.Type == inventory.Conversion {
		return []MatchedResource{{
			Resource: w.CRD.Resource, Namespaced: w.CRD.Namespaced, Operations: operationsOf(Create, Update, Delete),
			Named: true,
		}}
	}
	return m.index.matched.getOrCompute(MatchKey(w), func() []MatchedResource { return m.matchedResources(w) })
}

// MatchKey identifies what a webhook is called for: those of a type with the same key are
// called for the same requests.
func MatchKey(w *inventory.Webhook) string {
	key := appendList(make([]byte, 0, 256), string(w.MatchPolicy), string(w.FailurePolicy),
		strconv.FormatBool(w.Static()), w.NamespaceSelector.Key, w.ObjectSelector.Key, strconv.Itoa(len(w.Rules)))
	for i := range w.Rules {
		rule := &w.Rules[i]
		key = append(key, byte(RuleOperations(rule)))
		key = appendList(key, rule.APIGroups...)
		key = appendList(key, rule.APIVersions...)
		key = appendList(key, rule.Resources...)
		key = appendList(key, string(ptr.Deref(rule.Scope, admissionv1.AllScopes)))
	}
	for _, c := range w.MatchConditions {
		key = appendList(key, c.Expression)
	}
	return string(key)
}

type ruleMatch struct {
	operations Operations
	named      bool
}

func (m *Matcher) matchedResources(w *inventory.Webhook) []MatchedResource {
	covered := m.covered(w)
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
func (m *Matcher) covered(w *inventory.Webhook) []MatchedResource {
	var out []MatchedResource
	for t, match := range m.index.askedTargets(w.Rules, w.MatchPolicy) {
		if ops := match.operations & letThrough(w, t); ops != 0 && !neverSees(w.Ref, t.exempt, t.Resource) {
			out = append(out, MatchedResource{t.Resource, t.namespaced, ops, match.named})
		}
	}
	return sorted(out)
}

func sorted(resources []MatchedResource) []MatchedResource {
	slices.SortFunc(resources, func(a, b MatchedResource) int { return a.Compare(b.Resource) })
	return slices.Clip(resources)
}

func (x *index) askedTargets(rules []admissionv1.RuleWithOperations,
	policy admissionv1.MatchPolicyType,
) map[*target]ruleMatch {
	out := map[*target]ruleMatch{}
	for i := range rules {
		x.matches(&rules[i], policy, func(t *target, ops Operations, named bool) {
			out[t] = ruleMatch{out[t].operations | ops, out[t].named || named}
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
	set := sets.New(resources...)
	var out []int
	for i := range w.Rules {
		covered := false
		m.index.matches(&w.Rules[i], w.MatchPolicy, func(t *target, ops Operations, _ bool) {
			covered = covered || ops != 0 && set.Has(t.Resource)
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

// letThrough are the operations on which the selectors of a webhook can let requests to
// the target through: the options of a CONNECT carry no labels, so that an objectSelector
// never matches them; a namespaceSelector exempts no cluster-scoped resource, but
// Namespaces by their own labels.
func letThrough(w *inventory.Webhook, t *target) Operations {
	ofNamespace, isNamespace := anyNamespaceLabels, t.Name == "namespaces"
	if isNamespace {
		ofNamespace = anyLabels
	}
	switch {
	case anyLabels.match(w.ObjectSelector) == No,
		(isNamespace || t.namespaced) && ofNamespace.match(w.NamespaceSelector) == No:
		return 0
	case !w.ObjectSelector.Empty():
		return allOperations &^ operationBits[Connect]
	}
	return allOperations
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
func (x *index) matches(rule *admissionv1.RuleWithOperations, policy admissionv1.MatchPolicyType,
	visit func(t *target, ops Operations, named bool),
) {
	ops := RuleOperations(rule)
	x.each(rule, func(v apiVersion) {
		if !coversScope(rule.Scope, v.Resource, v.Namespaced) {
			return
		}
		for _, t := range x.storedAs[storedAs(v.Resource)] {
			// A version that a CRD declares without serving it is none of a target itself.
			if policy != admissionv1.Exact || v.Served && v.Resource == t.Resource {
				visit(t, ops&t.admitted, names(rule.Resources, v.Resource))
			}
		}
	})
}
