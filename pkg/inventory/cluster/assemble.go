package cluster

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// assemble returns the Objects of all resources.
func assemble(options Options, all []contents, info serverInfo) inventory.Objects {
	o := inventory.Objects{
		Server:          info.version,
		OpenShift:       info.openShift,
		Upgrading:       info.upgrading,
		ReviewsExcluded: info.reviewsExcluded,
		Discovered:      info.served,
		ServicesKnown:   coverage(all, corev1.Resource("services")),
		EndpointsKnown:  coverage(all, discoveryv1.Resource("endpointslices")),
		PoliciesKnown:   policiesKnown(all, info.served),
		Params:          info.params,
	}
	if info.openShift {
		// Source: OpenShift's kube-apiserver operator sets the flag.
		o.Routing = inventory.RoutingEndpoints
	}
	o.Routing = cmp.Or(options.Routing, o.Routing)
	failures := slices.Clone(info.failures)
	for _, c := range all {
		for _, object := range c.objects {
			o.Add(object)
		}
		switch c.GroupResource {
		case corev1.Resource("namespaces"):
			o.NamespacesKnown = c.known
		case apiregistrationv1.Resource("apiservices"):
			o.APIServicesKnown = c.known
		}
		if c.failure != nil {
			failures = append(failures, *c.failure)
		}
	}
	o.Errors = slices.Concat(errorsByCause(failures), info.errors)
	return o
}

// policiesKnown reports whether all admission policies and their bindings were read.
// API servers that serve none in v1 have none, unless they serve an older version.
func policiesKnown(all []contents, served []inventory.Served) bool {
	n := 0
	for _, c := range all {
		older := func(s inventory.Served) bool { return s.Resource == c.resource.name() }
		if slices.Contains(policyResources, c.Resource) && (c.known || c.absent && !slices.ContainsFunc(served, older)) {
			n++
		}
	}
	return n == len(policyResources)
}

// coverage returns for which Services the resource was read. One that is not read
// yet, or cannot be, leaves the others of its namespace as they are.
func coverage(all []contents, resource schema.GroupResource) inventory.Coverage {
	var read []keySet
	for _, c := range all {
		if c.GroupResource == resource && c.known {
			read = append(read, c.keys)
		}
	}
	if len(read) == 1 && read[0] != nil { // one watch of the whole cluster: the map of the Snapshot before
		return inventory.Coverage{Services: read[0]}
	}
	known := map[inventory.Key]bool{}
	for _, keys := range read {
		maps.Copy(known, keys)
	}
	return inventory.Coverage{Services: known}
}
