package admission

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Kind is the kind of an object.
type Kind struct {
	Group, Version, Kind string
	// Unsure says that Group and Version are unknown.
	Unsure bool
}

// String returns the kind as the API server names it, "autoscaling/v1, Kind=Scale".
func (k Kind) String() string {
	return schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}.String()
}

// foreignKinds are those of subresources whose kind belongs to another group
// than the resource. Source: GroupVersionKind of the registries in
// k8s.io/kubernetes/pkg/registry.
var foreignKinds = map[string]Kind{
	"eviction": {Group: "policy", Version: "v1", Kind: "Eviction"},
	"scale":    {Group: "autoscaling", Version: "v1", Kind: "Scale"},
	"token":    {Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"},
}

// foreignReviews are the resources whose kind belongs to another group. Source:
// github.com/openshift/oauth-apiserver/pkg/oauth/apiserver/registry/tokenreviews.
var foreignReviews = map[inventory.Resource]Kind{
	{Group: "oauth.openshift.io", Name: "tokenreviews"}: {Group: "authentication.k8s.io", Version: "v1", Kind: "TokenReview"},
}

// kindOf returns the kind in which admission meets a version of a resource:
// discovery has no more than its name.
func kindOf(served inventory.Served, parent string) Kind {
	foreign := foreignKinds[served.Subresource]
	review, isReview := foreignReviews[served.Resource]
	switch {
	case isReview:
		return review
	case served.Subresource == "" || served.Kind == parent || served.Group == "" && served.Kind != foreign.Kind:
		return Kind{Group: served.Group, Version: served.Version, Kind: served.Kind}
	case served.Kind == foreign.Kind && served.Group != "apps.openshift.io": // its Scale is older
		return foreign
	}
	return Kind{Kind: served.Kind, Unsure: true}
}
