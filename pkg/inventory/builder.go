package inventory

import (
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Builder makes one Snapshot after another of a cluster. Each takes over from the
// one before what is made of the same objects, so that a change costs what it
// touches. Two objects are the same where they have one address: what changes is
// replaced by another object, and never written to.
//
// The zero Builder is ready to use, by one goroutine at a time.
type Builder struct {
	// before is the last Snapshot, nil for the first, and objects are those that it
	// is made of.
	before  *Snapshot
	objects Objects
	// registered is what each object registers.
	registered map[any][]*Webhook
	crds       map[*apiextensionsv1.CustomResourceDefinition]*CRD
	// served is what the input shows to be served.
	served []Served
}

// Snapshot turns the objects into facts. It never writes to the objects.
func (b *Builder) Snapshot(o Objects, taken time.Time) *Snapshot {
	s := &Snapshot{
		Taken:            taken,
		Server:           o.Server,
		OpenShift:        o.OpenShift,
		Upgrading:        o.Upgrading,
		Routing:          o.Routing,
		ReviewsExcluded:  o.reviewsExcluded(),
		Exclusions:       o.exclusions(),
		Manifests:        o.Manifests,
		Applied:          o.Applied,
		Nodes:            o.Nodes,
		ResourcesKnown:   o.ResourcesKnown || o.NamespacesKnown || o.Discovered != nil,
		NamespacesKnown:  o.NamespacesKnown,
		APIServicesKnown: o.APIServicesKnown,
		PoliciesKnown:    o.PoliciesKnown,
		ServicesKnown:    o.ServicesKnown,
		EndpointsKnown:   o.EndpointsKnown,
		Inputs:           o.Inputs,
		Current:          o.Current,
		Outdated:         o.Outdated,
		WatchErrors:      o.WatchErrors,
		Regressions:      o.Regressions,
	}
	b.addResources(s, o)
	b.addObjects(s, o)
	b.addWebhooks(s, o)
	b.addPolicies(s, o)
	if presumed := s.presumed(); len(presumed) > 0 {
		s.Served = slices.SortedFunc(slices.Values(slices.Concat(s.Served, presumed)), compareServed)
	}
	s.Errors = slices.Concat(o.Errors, policyErrors(s), webhookErrors(s.Webhooks))
	b.before, b.objects = s, o
	return s
}

// addResources adds the CRDs and what the server serves.
func (b *Builder) addResources(s *Snapshot, o Objects) {
	was, before := &b.objects, b.before
	if before != nil && slices.Equal(o.CRDs, was.CRDs) {
		s.CRDs = before.CRDs
	} else {
		b.crds = o.crds(b.crds)
		s.CRDs = make(map[string]*CRD, len(b.crds))
		for _, object := range o.CRDs {
			s.CRDs[object.Name] = b.crds[object]
		}
	}
	if before != nil && sameMap(s.CRDs, before.CRDs) && sameServed(o.Discovered, was.Discovered) && s.Server == before.Server && s.OpenShift == before.OpenShift {
		s.Served = b.served
	} else {
		s.Served = o.served(s.CRDs)
	}
	b.served = s.Served
}

// addWebhooks adds the webhooks; they are those of before where all objects are.
func (b *Builder) addWebhooks(s *Snapshot, o Objects) {
	registered, added := o.register(s.CRDs, b.registered)
	if b.before != nil && added == 0 && len(registered) == len(b.registered) {
		s.Webhooks = b.before.Webhooks
	} else {
		s.Webhooks = o.inOrder(registered)
	}
	b.registered = registered
}

// addObjects adds what else webhooks refer to.
func (b *Builder) addObjects(s *Snapshot, o Objects) {
	was, before := &b.objects, b.before
	if before == nil {
		s.Namespaces, s.APIServices, s.Services, s.Workloads = o.namespaces(), o.apiServices(), o.services(), o.workloads()
		s.DisruptionBudgets, s.NetworkPolicies, s.placement = o.disruptionBudgets(), o.networkPolicies(), &placement{}
		return
	}
	if o.ServicesKnown.equal(before.ServicesKnown) {
		s.ServicesKnown = before.ServicesKnown
	}
	if o.EndpointsKnown.equal(before.EndpointsKnown) {
		s.EndpointsKnown = before.EndpointsKnown
	}
	s.Namespaces, s.APIServices = before.Namespaces, before.APIServices
	if !slices.Equal(o.Namespaces, was.Namespaces) {
		s.Namespaces = o.namespaces()
	}
	if !slices.Equal(o.APIServices, was.APIServices) {
		s.APIServices = o.apiServices()
	}
	s.Services, s.Workloads, s.placement = before.Services, before.Workloads, before.placement
	if !slices.Equal(o.Services, was.Services) || !slices.Equal(o.EndpointSlices, was.EndpointSlices) {
		s.Services, s.placement = o.services(), &placement{}
	}
	if !slices.Equal(o.Pods, was.Pods) || !slices.Equal(o.Deployments, was.Deployments) || !slices.Equal(o.StatefulSets, was.StatefulSets) || !slices.Equal(o.DaemonSets, was.DaemonSets) {
		s.Workloads, s.placement = o.workloads(), &placement{}
	}
	s.DisruptionBudgets, s.NetworkPolicies = before.DisruptionBudgets, before.NetworkPolicies
	if !slices.Equal(o.DisruptionBudgets, was.DisruptionBudgets) {
		s.DisruptionBudgets, s.placement = o.disruptionBudgets(), &placement{}
	}
	if !slices.Equal(o.NetworkPolicies, was.NetworkPolicies) {
		s.NetworkPolicies, s.placement = o.networkPolicies(), &placement{}
	}
}

// crds are those of the objects, as they were before where the object is the same.
func (o Objects) crds(before map[*apiextensionsv1.CustomResourceDefinition]*CRD) map[*apiextensionsv1.CustomResourceDefinition]*CRD {
	out := make(map[*apiextensionsv1.CustomResourceDefinition]*CRD, len(o.CRDs))
	for _, c := range o.CRDs {
		crd, same := before[c]
		if !same {
			crd = o.crd(c)
		}
		out[c] = crd
	}
	return out
}
