package inventory

import (
	"maps"
	"slices"
)

// SameResources reports whether the API servers of two Snapshots of one Builder serve the
// same by the same rules: a webhook that is the same matches the same resources then.
func (s *Snapshot) SameResources(o *Snapshot) bool {
	return s.Server == o.Server &&
		s.OpenShift == o.OpenShift &&
		s.ReviewsExcluded == o.ReviewsExcluded &&
		s.ResourcesKnown == o.ResourcesKnown &&
		s.NamespacesKnown == o.NamespacesKnown &&
		maps.Equal(s.CRDs, o.CRDs) &&
		slices.EqualFunc(s.Served, o.Served, Served.equal)
}

func (s Served) equal(o Served) bool {
	return s.Resource == o.Resource && s.Version == o.Version && s.Kind == o.Kind && s.Namespaced == o.Namespaced && slices.Equal(s.Verbs, o.Verbs)
}
