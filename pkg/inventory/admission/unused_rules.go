package admission

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// UnusedRules returns the indexes of the rules that match nothing that this server
// serves and sends to webhooks, or evaluates policies for.
func (m *Matcher) UnusedRules(r *inventory.Registration) []int {
	x := m.index
	possible := allOperations
	if !r.ObjectSelector.Empty() {
		possible &^= operationBits[Connect] // what it sends carries no labels
	}
	never := NeverSent(m.Snapshot, r.Ref)
	var out []int
	for i := range r.Rules {
		unused := true
		x.matches(&r.Rules[i], r.MatchPolicy, func(target int, ops Operations, _ bool) {
			unused = unused && (ops&possible == 0 || slices.Contains(never, x.targets[target].Parent()))
		})
		if unused {
			out = append(out, i)
		}
	}
	return out
}

// UnmatchedVersions returns, for a resource, the served versions of what is stored
// as one with it that no rule of the webhooks covers, as "apps/v1 deployments":
// requests in them pass the webhooks by. It goes through the rules once, for any
// number of resources.
func (m *Matcher) UnmatchedVersions(webhooks []*inventory.Webhook) func(inventory.Resource) []string {
	x := m.index
	covered := map[versionOf]bool{}
	seen := map[string]bool{}
	for _, w := range webhooks {
		if key := rulesKey(w); !seen[key] {
			seen[key] = true
			for i := range w.Rules {
				x.cover(covered, &w.Rules[i])
			}
		}
	}
	return func(r inventory.Resource) []string {
		var out []string
		served := 0
		for _, v := range x.stored[storedAs(r)] {
			if !v.Served {
				continue
			}
			served++
			if !covered[versionOf{v.Resource, v.Version}] {
				out = append(out, schema.GroupVersion{Group: v.Group, Version: v.Version}.String()+" "+v.Path())
			}
		}
		if served < 2 {
			return nil
		}
		slices.Sort(out)
		return out
	}
}

// versionOf is a version of a resource.
type versionOf struct {
	inventory.Resource
	version string
}

// cover marks the versions that the rule covers, whatever the operation.
func (x *index) cover(covered map[versionOf]bool, rule *admissionv1.RuleWithOperations) {
	x.each(rule, func(e *entry) {
		if CoversVersion(rule, e.Version) {
			covered[versionOf{e.Resource, e.Version}] = true
		}
	})
}
