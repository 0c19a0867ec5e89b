package inventory

import (
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Builder makes one Snapshot after another of a cluster. What is made of an object that
// registers webhooks, and costs most, is kept as long as that object is there. Two objects
// are the same where they have one address: what changes is replaced by another object,
// and never written to.
//
// The zero Builder is ready to use, by one goroutine at a time.
type Builder struct {
	// before is the last Snapshot, nil for the first, and objects are those that it
	// is made of.
	before     *Snapshot
	objects    Objects
	registered map[any][]*Webhook
	crds       map[*apiextensionsv1.CustomResourceDefinition]*CRD
}

// Snapshot turns the objects into facts. It never writes to the objects.
func (b *Builder) Snapshot(o Objects, snapshotTime time.Time) *Snapshot {
	s := &Snapshot{
		Taken:           snapshotTime,
		Cluster:         o.Cluster,
		ReviewsExcluded: o.reviewsExcluded(),

		Namespaces:        o.namespaces(),
		APIServices:       o.apiServices(),
		Services:          o.services(),
		Workloads:         o.workloads(),
		DisruptionBudgets: o.disruptionBudgets(),
		NetworkPolicies:   o.networkPolicies(),
		placement:         &placement{},

		PeerAuthentications:   o.PeerAuthentications,
		AuthorizationPolicies: o.AuthorizationPolicies,
		LinkerdPolicies:       o.LinkerdPolicies,
		IssuedCertificates:    o.IssuedCertificates,
	}
	s.ResourcesKnown = o.ResourcesKnown || o.NamespacesKnown && len(o.Inputs) == 0 || o.Discovered != nil
	b.addCRDs(s, o)
	s.Served = o.served(s.CRDs)
	b.register(s, o)
	b.addPolicies(s, o)
	s.Inputs = s.withUnchecked(o.Inputs)
	if presumed := s.presumed(); len(presumed) > 0 {
		s.Served = slices.SortedFunc(slices.Values(slices.Concat(s.Served, presumed)), CompareServed)
	}
	s.Errors = slices.Concat(o.Errors, s.errors())
	b.before, b.objects = s, o
	return s
}

// register adds the webhooks that the objects register, as they were before where the
// object is the same: parsing selectors and CA bundles is most of what a Snapshot costs.
// They are in the order in which the API server calls them: by type, configuration and
// place in it. It sorts configurations by name. Source:
// k8s.io/apiserver pkg/admission/configuration.
func (b *Builder) register(s *Snapshot, o Objects) {
	registered := make(map[any][]*Webhook, len(o.Mutating)+len(o.Validating)+len(o.CRDs))
	register := func(object any, webhooks func() []*Webhook) {
		all, same := b.registered[object]
		if !same {
			all = webhooks()
		}
		registered[object] = all
		s.Webhooks = append(s.Webhooks, all...)
	}
	for _, c := range o.Mutating {
		register(c, func() []*Webhook { return o.webhooks(Mutating, c) })
	}
	for _, c := range o.CRDs {
		register(c, func() []*Webhook { return conversion(c, s.CRDs[c.Name]) })
	}
	for _, c := range o.Validating {
		register(c, func() []*Webhook { return o.webhooks(Validating, c) })
	}
	slices.SortStableFunc(s.Webhooks, (*Webhook).compareCalls)
	b.registered = registered
}

func (b *Builder) addCRDs(s *Snapshot, o Objects) {
	s.CRDs = make(map[string]*CRD, len(o.CRDs))
	crds := make(map[*apiextensionsv1.CustomResourceDefinition]*CRD, len(o.CRDs))
	for _, c := range o.CRDs {
		crd, same := b.crds[c]
		if !same {
			crd = o.crd(c)
		}
		crds[c], s.CRDs[c.Name] = crd, crd
	}
	b.crds = crds
}
