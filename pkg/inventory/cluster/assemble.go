package cluster

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

func assemble(options Options, all []contents, info serverInfo, reads *reads) inventory.Objects {
	o := inventory.Objects{
		Cluster: inventory.Cluster{
			Server:         info.version,
			OpenShift:      info.openShift,
			Upgrading:      info.upgrading,
			ServicesKnown:  reads.coverage(all, serviceResource),
			EndpointsKnown: reads.coverage(all, sliceResource),
			PoliciesKnown:  policiesKnown(all, info.served),
		},
		ReviewsExcluded: info.reviewsExcluded,
		Discovered:      info.served,
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
		case namespaceResource:
			o.NamespacesKnown = c.complete
		case apiregistrationv1.Resource("apiservices"):
			o.APIServicesKnown = c.complete
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
		if slices.Contains(policyResources, c.Resource) &&
			(c.complete || c.absent && !slices.ContainsFunc(served, older)) {
			n++
		}
	}
	return n == len(policyResources)
}

func (n *reads) coverage(all []contents, resource schema.GroupResource) inventory.Coverage {
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.ContainsFunc(all, func(c contents) bool { return c.GroupResource == resource && c.complete }) {
		return inventory.Coverage{Services: n.services}
	}
	return inventory.Coverage{Services: map[inventory.Key]bool{}}
}
