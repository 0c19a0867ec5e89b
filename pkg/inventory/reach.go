package inventory

import (
	"slices"

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
// without looking at every resource for every rule.
type index struct {
	targets []target
	groups  map[string][]entry
}

// target is a served resource in all its versions.
type target struct {
	Resource
	namespaced bool
	operations Operations
	never      bool
}

// entry is one version of a resource that a rule may cover.
type entry struct {
	resource   Resource
	version    string
	namespaced bool
	// exact are the targets reached through this version itself: none for a
	// version that a CRD declares without serving it.
	exact []int
	// equivalent are the targets stored as one with it.
	equivalent []int
}

func newIndex(s *Snapshot) *index {
	x := &index{groups: map[string][]entry{}}
	never := s.NeverSent()
	byStorage := map[Resource][]int{}
	position := map[Resource]int{}
	for _, served := range s.Served {
		i, seen := position[served.Resource]
		if !seen {
			i = len(x.targets)
			position[served.Resource] = i
			x.targets = append(x.targets, target{
				Resource:   served.Resource,
				namespaced: served.Namespaced,
				never:      slices.Contains(never, served.Parent()),
			})
			key := storedAs(served.Resource)
			byStorage[key] = append(byStorage[key], i)
		}
		x.targets[i].operations |= OperationsOf(served.Operations()...)
	}
	for _, served := range s.Served {
		x.add(entry{
			resource:   served.Resource,
			version:    served.Version,
			namespaced: served.Namespaced,
			exact:      []int{position[served.Resource]},
			equivalent: byStorage[storedAs(served.Resource)],
		})
	}
	x.addUnserved(s.CRDs, position)
	return x
}

func (x *index) add(e entry) {
	x.groups[e.resource.Group] = append(x.groups[e.resource.Group], e)
}

// addUnserved adds the versions that CRDs declare but do not serve: a rule on
// them reaches the served ones by equivalence.
func (x *index) addUnserved(crds map[string]*CRD, position map[Resource]int) {
	for _, c := range crds {
		for _, v := range c.Versions {
			if v.Served {
				continue
			}
			for _, sub := range append([]string{""}, v.Subresources...) {
				r := Resource{c.Resource.Group, c.Resource.Name, sub}
				if i, ok := position[r]; ok {
					x.add(entry{resource: r, version: v.Name, namespaced: c.Namespaced, equivalent: []int{i}})
				}
			}
		}
	}
}

// Reach returns the resources for which the webhook is called, sorted. A
// selector takes away only what it provably excludes.
func (s *Snapshot) Reach(w *Webhook) []Reached {
	reached, _ := s.ReachOfRules(w)
	return reached
}

// ReachOfRules returns what Reach does, and the places of the rules that reach
// nothing that this server serves.
func (s *Snapshot) ReachOfRules(w *Webhook) (reached []Reached, idle []int) {
	if w.Type == Conversion {
		return []Reached{{Resource: w.CRD.Resource, Namespaced: w.CRD.Namespaced, Operations: OperationsOf(Create, Update, Delete), Named: true}}, nil
	}
	x := s.index
	if x == nil {
		x = newIndex(s)
	}
	hits := make([]Reached, len(x.targets))
	possible := possible(w)
	for i := range w.Rules {
		if x.mark(hits, &w.Rules[i], w.MatchPolicy)&possible == 0 {
			idle = append(idle, i)
		}
	}
	return collect(x, hits, possible), idle
}

// possible are the operations on which the webhook can be called at all: the
// options of a CONNECT carry no labels, so a selector never matches them.
func possible(w *Webhook) Operations {
	if !w.ObjectSelector.Empty() {
		return allOperations &^ operationBits[Connect]
	}
	return allOperations
}

// mark adds what the rule reaches to the hits, and returns the operations on
// which it reaches anything.
func (x *index) mark(hits []Reached, rule *admissionv1.RuleWithOperations, policy admissionv1.MatchPolicyType) Operations {
	ops := ruleOperations(rule)
	var reached Operations
	for group, entries := range x.groups {
		if !covers(rule.APIGroups, group) {
			continue
		}
		for _, e := range entries {
			if !covers(rule.APIVersions, e.version) || !coversScope(rule.Scope, e.resource, e.namespaced) || !coversName(rule.Resources, e.resource) {
				continue
			}
			targets := e.equivalent
			if policy == admissionv1.Exact {
				targets = e.exact
			}
			for _, i := range targets {
				hits[i].Operations |= ops & x.targets[i].operations
				hits[i].Named = hits[i].Named || names(rule.Resources, e.resource)
				if !x.targets[i].never {
					reached |= ops & x.targets[i].operations
				}
			}
		}
	}
	return reached
}

func collect(x *index, hits []Reached, possible Operations) []Reached {
	var out []Reached
	for i, hit := range hits {
		t := x.targets[i]
		if ops := hit.Operations & possible; ops != 0 && !t.never {
			out = append(out, Reached{t.Resource, t.namespaced, ops, hit.Named})
		}
	}
	return out
}
