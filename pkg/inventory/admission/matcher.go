// Package admission computes what an API server does at admission: which
// webhooks it calls for a request, in which order and how long that may take,
// and which resources a webhook is called for. It is pure: it knows one
// inventory.Snapshot and nothing else.
//
// A Matcher makes a Request (request.go), which says of a webhook whether it is
// called (match.go) by its rules, selectors and matchConditions (rules.go,
// labels.go, match_conditions.go). The index has the reverse: the resources that a
// webhook is called for.
package admission

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Matcher answers for the webhooks and the API server of one Snapshot. It is
// safe for concurrent use.
type Matcher struct {
	Snapshot *inventory.Snapshot
	Platform inventory.Platform // found once: it may cost the webhooks
	index    *index
	requests *memo[requestKey, Request]
	// others are what GetsOther found.
	others *memo[*inventory.CRD, *inventory.Registration]
	// params says of bindings whether there are such params, where that was read for one
	// request.
	params map[*inventory.PolicyBinding]Match
}

// New returns the Matcher of a Snapshot. It costs the resources that the API
// server serves.
func New(s *inventory.Snapshot) *Matcher {
	return newMatcher(s, newIndex(s, programs{newMemo[sourceText, *program]()}))
}

func newMatcher(s *inventory.Snapshot, x *index) *Matcher {
	return &Matcher{
		Snapshot: s, Platform: s.Platform(), index: x, requests: newMemo[requestKey, Request](),
		others: newMemo[*inventory.CRD, *inventory.Registration](),
	}
}

// WithProbes returns the Matcher of the same Snapshot with other probes, on which no
// match depends.
func (m *Matcher) WithProbes(probes map[inventory.Ref]inventory.Probe) *Matcher {
	s, out := *m.Snapshot, *m
	s.Probes, out.Snapshot = probes, &s
	return &out
}

// WithParams returns the Matcher of the same Snapshot for one request, of whose bindings it
// is known whether there are such params.
func (m *Matcher) WithParams(exist map[*inventory.PolicyBinding]Match) *Matcher {
	out := *m
	out.params = exist
	return &out
}

// Next returns the Matcher of the Snapshot that follows that of m. It takes over the
// expressions that are compiled and, where the API server serves the same, the resources
// that webhooks match; nothing from nil. Both may be used on.
func (m *Matcher) Next(s *inventory.Snapshot) *Matcher {
	if m == nil {
		return New(s)
	}
	m.index.next()
	out := newMatcher(s, m.index)
	if out.Platform != m.Platform || !s.SameResources(m.Snapshot) {
		out.index = newIndex(s, m.index.programs)
	}
	return out
}

// Writing is the request by which the object of a manifest is written, in the namespace
// where it states none. A kind that the input does not show to be served, as that of a
// CRD which it lacks, counts as namespaced, with the plural that kubectl guesses.
func (m *Matcher) Writing(op Operation, o *inventory.Manifest, namespace string) Request {
	kind := Kind{Group: o.Group, Version: o.Version, Kind: o.Kind}
	v, served := m.index.kinds[kind]
	if !served {
		plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{
			Group: o.Group, Version: o.Version, Kind: o.Kind,
		})
		v = apiVersion{inventory.Resource{Group: o.Group, Name: plural.Resource}, o.Version, kind, true, true}
	}
	subject := Subject{Name: o.Name, Labels: o.Labels}
	if subject.Labels == nil {
		subject.Labels = map[string]string{}
	}
	if v.Namespaced {
		subject.Namespace = cmp.Or(o.Namespace, namespace)
	}
	return m.request(v, op, subject)
}

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
