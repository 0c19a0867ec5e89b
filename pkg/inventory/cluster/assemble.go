package cluster

import (
	"cmp"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// assemble returns the Objects of all resources, with the options applied.
func (o Options) assemble(all []contents, info serverInfo) inventory.Objects {
	out := assemble(all, info)
	out.Routing = cmp.Or(o.Routing, out.Routing)
	return out
}

func assemble(all []contents, info serverInfo) inventory.Objects {
	o := inventory.Objects{
		Server:          info.version,
		OpenShift:       info.openShift,
		Upgrading:       info.upgrading,
		ReviewsExcluded: info.excluded,
		Discovered:      info.served,
		ServicesKnown:   coverage(all, corev1.Resource("services")),
		EndpointsKnown:  coverage(all, discoveryv1.Resource("endpointslices")),
	}
	if info.openShift {
		// Source: OpenShift's kube-apiserver operator sets the flag.
		o.Routing = inventory.RoutingEndpoints
	}
	failures := slices.Clone(info.failures)
	for _, c := range all {
		add(&o, c.objects)
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
	o.Errors = slices.Concat(explain(failures), info.errors)
	return o
}

func add(o *inventory.Objects, objects []any) {
	for _, obj := range objects {
		switch v := obj.(type) {
		case *admissionv1.ValidatingWebhookConfiguration:
			o.Validating = append(o.Validating, v)
		case *admissionv1.MutatingWebhookConfiguration:
			o.Mutating = append(o.Mutating, v)
		case *apiextensionsv1.CustomResourceDefinition:
			o.CRDs = append(o.CRDs, v)
		case *apiregistrationv1.APIService:
			o.APIServices = append(o.APIServices, v)
		case *metav1.PartialObjectMetadata:
			o.Namespaces = append(o.Namespaces, v)
		case *corev1.Service:
			o.Services = append(o.Services, v)
		case *corev1.Pod:
			o.Pods = append(o.Pods, v)
		case *discoveryv1.EndpointSlice:
			o.EndpointSlices = append(o.EndpointSlices, v)
		case *appsv1.DaemonSet:
			o.DaemonSets = append(o.DaemonSets, v)
		case *appsv1.Deployment:
			o.Deployments = append(o.Deployments, v)
		}
	}
}

// coverage returns for which Services the resource was read. One that is not read
// yet, or cannot be, leaves the others of its namespace as they are.
func coverage(all []contents, resource schema.GroupResource) inventory.Coverage {
	known := map[inventory.Key]bool{}
	for _, c := range all {
		if c.GroupResource == resource && c.known {
			for _, key := range c.scope.keys() {
				known[key] = true
			}
		}
	}
	return inventory.Coverage{Services: known}
}
