package admission

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// UnusedRules returns the indexes of the rules that match nothing that this server
// serves and sends to webhooks, or evaluates policies for.
func (m *Matcher) UnusedRules(r *inventory.Registration) []int {
	possible := allOperations
	if !r.ObjectSelector.Empty() {
		possible &^= operationBits[Connect] // what it sends carries no labels
	}
	never := NeverSent(m.Snapshot, r.Ref)
	var out []int
	for i := range r.Rules {
		unused := true
		m.index.matches(&r.Rules[i], r.MatchPolicy, func(t *target, ops Operations, _ bool) {
			unused = unused && (ops&possible == 0 || slices.Contains(never, t.Parent()) ||
				unselectedScale(r, t.Resource))
		})
		if unused {
			out = append(out, i)
		}
	}
	return out
}

// unselectedScale reports whether requests to the resource carry a Scale which the objectSelector
// does not select, having no labels. Mutations meet it as the client wrote it, with labels maybe.
func unselectedScale(r *inventory.Registration, resource inventory.Resource) bool {
	s := r.ObjectSelector
	return resource.Subresource == "scale" && r.Type.Validates() && s.Parsed != nil && !s.Parsed.Matches(labels.Set{})
}

// UnmatchedVersions returns, for a resource, the served versions of what is stored
// as one with it that no rule of the webhooks covers, as "apps/v1 deployments":
// requests in them pass the webhooks by. It goes through the rules once, for any
// number of resources.
func (m *Matcher) UnmatchedVersions(webhooks []*inventory.Webhook) func(inventory.Resource) []string {
	covered := map[versionOf]bool{}
	for _, w := range webhooks {
		for i := range w.Rules {
			m.index.each(&w.Rules[i], func(v apiVersion) { covered[versionOf{v.Resource, v.Version}] = true })
		}
	}
	return func(r inventory.Resource) []string {
		var out []string
		served := 0
		for _, v := range m.index.stored[storedAs(r)] {
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

type versionOf struct {
	inventory.Resource
	version string
}
