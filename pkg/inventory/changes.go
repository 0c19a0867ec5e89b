package inventory

import (
	"maps"
	"reflect"
	"slices"
)

// Changes says in what two Snapshots differ beside their webhooks, what is behind
// those, probes and errors.
type Changes struct {
	// Resources says that the API server serves others, or that CRDs changed.
	Resources bool
	// Others says that anything else changed that matching depends on.
	Others bool
}

// ChangesSince compares the Snapshot with an earlier one of the same Builder, by the
// parts that both share. Snapshots of different Builders always differ.
func (s *Snapshot) ChangesSince(o *Snapshot) Changes {
	return Changes{
		Resources: s.ReviewsExcluded != o.ReviewsExcluded || s.ResourcesKnown != o.ResourcesKnown || !sameSlice(s.Served, o.Served) || !sameMap(s.CRDs, o.CRDs),
		Others: s.Server != o.Server ||
			s.OpenShift != o.OpenShift ||
			s.Upgrading != o.Upgrading ||
			s.Routing != o.Routing ||
			s.Nodes != o.Nodes ||
			s.NamespacesKnown != o.NamespacesKnown ||
			s.APIServicesKnown != o.APIServicesKnown ||
			s.PoliciesKnown != o.PoliciesKnown ||
			s.Observed != o.Observed ||
			!sameMap(s.Namespaces, o.Namespaces) ||
			!sameMap(s.APIServices, o.APIServices) ||
			!sameSlice(s.Policies, o.Policies) ||
			!sameSlice(s.Unbound, o.Unbound) ||
			!sameSlice(s.Workloads, o.Workloads) ||
			!sameSlice(s.DisruptionBudgets, o.DisruptionBudgets) ||
			!sameSlice(s.NetworkPolicies, o.NetworkPolicies) ||
			!sameSlice(s.Manifests, o.Manifests),
	}
}

// SameRegistrations reports whether both Snapshots, of one Builder, share all webhooks
// and policies.
func (s *Snapshot) SameRegistrations(o *Snapshot) bool {
	return sameSlice(s.Webhooks, o.Webhooks) && sameSlice(s.Policies, o.Policies)
}

// same compares no elements, equal does.
func (c Coverage) same(o Coverage) bool {
	return c.All == o.All && sameMap(c.Namespaces, o.Namespaces) && sameMap(c.Services, o.Services)
}

func (c Coverage) equal(o Coverage) bool {
	return c.same(o) || c.All == o.All && maps.Equal(c.Namespaces, o.Namespaces) && maps.Equal(c.Services, o.Services)
}

// sameServed compares what discovery returned, which is asked again and again.
func sameServed(a, b []Served) bool {
	return sameSlice(a, b) || (a == nil) == (b == nil) && slices.EqualFunc(a, b, func(a, b Served) bool {
		return a.Resource == b.Resource && a.Version == b.Version && a.Kind == b.Kind && a.Namespaced == b.Namespaced && slices.Equal(a.Verbs, b.Verbs)
	})
}

// sameSlice reports whether both are one slice. It compares no elements.
func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// sameMap reports whether both are one map. It compares no elements.
func sameMap[K comparable, V any](a, b map[K]V) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}
