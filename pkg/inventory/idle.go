package inventory

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// IdleRules returns the places of the rules that reach nothing that this server
// serves and sends to webhooks.
func (s *Snapshot) IdleRules(w *Webhook) []int {
	x := s.lookup()
	possible := allOperations
	if !w.ObjectSelector.Empty() {
		possible &^= operationBits[Connect] // what it sends carries no labels
	}
	var out []int
	for i := range w.Rules {
		if x.idle(&w.Rules[i], w.MatchPolicy, possible) {
			out = append(out, i)
		}
	}
	return out
}

func (x *index) idle(rule *admissionv1.RuleWithOperations, policy admissionv1.MatchPolicyType, possible Operations) bool {
	ops := ruleOperations(rule) & possible
	if slices.Contains(rule.APIGroups, "*") {
		for _, entries := range x.groups {
			if x.anyReached(entries, rule, policy, ops) {
				return false
			}
		}
		return true
	}
	for _, group := range rule.APIGroups {
		if x.anyReached(x.groups[group], rule, policy, ops) {
			return false
		}
	}
	return true
}

func (x *index) anyReached(entries []entry, rule *admissionv1.RuleWithOperations, policy admissionv1.MatchPolicyType, ops Operations) bool {
	for i := range entries {
		e := &entries[i]
		if !coversName(rule.Resources, e.Resource) || !covers(rule.APIVersions, e.Version) || !coversScope(rule.Scope, e.Resource, e.Namespaced) {
			continue
		}
		targets := e.equivalent
		if policy == admissionv1.Exact {
			targets = e.exact
		}
		for _, t := range targets {
			if ops&x.targets[t].operations != 0 && !x.targets[t].never {
				return true
			}
		}
	}
	return false
}

// Unmatched returns the served versions of what is stored as one with the
// resource that none of the webhooks' rules cover, as "apps/v1 deployments".
// Where only one is served there is nothing to pass a webhook by.
func (s *Snapshot) Unmatched(r Resource, webhooks []*Webhook) []string {
	var out []string
	served := 0
	for _, v := range s.lookup().stored[storedAs(r)] {
		if !v.Served {
			continue
		}
		served++
		if !slices.ContainsFunc(webhooks, func(w *Webhook) bool { return w.covers(v) }) {
			out = append(out, groupVersion(v.Group, v.Version)+" "+v.Path())
		}
	}
	if served < 2 {
		return nil
	}
	slices.Sort(out)
	return out
}

// covers reports whether a rule covers the version, whatever the operation.
func (w *Webhook) covers(v apiVersion) bool {
	return slices.ContainsFunc(w.Rules, func(rule admissionv1.RuleWithOperations) bool {
		return coversName(rule.Resources, v.Resource) && covers(rule.APIGroups, v.Group) && covers(rule.APIVersions, v.Version)
	})
}

func groupVersion(group, version string) string {
	if group == "" {
		return version
	}
	return group + "/" + version
}

// HasServiceIn reports whether a Service of the namespace is known.
func (s *Snapshot) HasServiceIn(namespace string) bool {
	for key := range s.Services {
		if key.Namespace == namespace {
			return true
		}
	}
	return false
}

// NamesResource reports whether the rule's resources cover the resource,
// whatever its group.
func NamesResource(rule *admissionv1.RuleWithOperations, r Resource) bool {
	return coversName(rule.Resources, r)
}
