package inventory

import (
	"maps"
	"reflect"
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
	registered map[any]objectWebhooks
	crds       map[*apiextensionsv1.CustomResourceDefinition]*CRD
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
		Nodes:            o.Nodes,
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
	s.Errors = slices.Concat(o.Errors, policyErrors(s))
	if anyErrors(b.registered) {
		s.Errors = slices.Concat(s.Errors, webhookErrors(s.Webhooks))
	}
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
		s.Served = before.Served
	} else {
		s.Served = o.served(s.CRDs)
	}
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
		crd, known := before[c]
		if !known {
			crd = o.crd(c)
		}
		out[c] = crd
	}
	return out
}

// Changes says in what two Snapshots differ beside their webhooks, probes and
// errors.
type Changes struct {
	// Resources says that the API server serves others, or that CRDs changed.
	Resources bool
	// Others says that anything else changed that matching depends on.
	Others bool
	// Backends says that something changed behind webhooks: Services and endpoints.
	Backends bool
}

// ChangesSince compares the Snapshot with an earlier one of the same Builder, by the
// parts that both share. Snapshots of different Builders always differ.
func (s *Snapshot) ChangesSince(o *Snapshot) Changes {
	return Changes{
		Resources: s.ReviewsExcluded != o.ReviewsExcluded || !sameSlice(s.Served, o.Served) || !sameMap(s.CRDs, o.CRDs),
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
		Backends: !sameMap(s.Services, o.Services) || !s.ServicesKnown.same(o.ServicesKnown) || !s.EndpointsKnown.same(o.EndpointsKnown),
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
