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

// result is what one source gave.
type result struct {
	source
	objects []any
	// known says that the objects are all there are, or were when they were
	// last seen.
	known   bool
	failure *failure
}

// assemble puts together what all sources gave, with the options applied.
func (o Options) assemble(results []result, f facts) inventory.Objects {
	out := assemble(results, f)
	out.Routing = cmp.Or(o.Routing, out.Routing)
	return out
}

func assemble(results []result, f facts) inventory.Objects {
	o := inventory.Objects{
		Server:          f.version,
		OpenShift:       f.openShift,
		Upgrading:       f.upgrading,
		ReviewsExcluded: f.excluded,
		Discovered:      f.served,
		ServicesKnown:   coverage(results, corev1.Resource("services")),
		EndpointsKnown:  coverage(results, discoveryv1.Resource("endpointslices")),
	}
	if f.openShift {
		// Source: OpenShift's kube-apiserver operator sets the flag.
		o.Routing = inventory.RoutingEndpoints
	}
	failures := slices.Clone(f.failures)
	for _, r := range results {
		add(&o, r.objects)
		switch r.GroupResource {
		case corev1.Resource("namespaces"):
			o.NamespacesKnown = r.known
		case apiregistrationv1.Resource("apiservices"):
			o.APIServicesKnown = r.known
		}
		if r.failure != nil {
			failures = append(failures, *r.failure)
		}
	}
	o.Errors = slices.Concat(explain(failures), f.errors)
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

// coverage returns of which Services the resource was read: one that is being
// read, or cannot be, leaves the others of its namespace as they are.
func coverage(results []result, resource schema.GroupResource) inventory.Coverage {
	known := map[inventory.Key]bool{}
	for _, r := range results {
		if r.GroupResource == resource && r.known {
			known[r.service] = true
		}
	}
	return inventory.Coverage{Services: known}
}

// wanted returns what is read because of the webhooks: the Services that they
// call, the Pods of the namespaces from which a failure would close the API, and
// what nodes need of the system namespaces where it could be held up.
func wanted(s *inventory.Snapshot) map[place]bool {
	out := map[place]bool{}
	for key := range references(s) {
		out[place{key, backendService}] = true
	}
	systems := present(s, inventory.SystemNamespaces)
	for i := range s.Webhooks {
		w := &s.Webhooks[i]
		if !w.FailsClosed() || w.Backend.Kind == inventory.BackendURL {
			continue
		}
		out[place{inventory.Key{Namespace: s.State(w.Backend).Service.Namespace}, backendNamespace}] = true
		systems = slices.DeleteFunc(systems, func(namespace string) bool { // one webhook is enough
			held := s.HoldsUp(w, namespace)
			if held {
				out[place{inventory.Key{Namespace: namespace}, systemNamespace}] = true
			}
			return held
		})
	}
	return out
}

// present returns those of the namespaces that are there, or that may be.
func present(s *inventory.Snapshot, namespaces []string) []string {
	return slices.DeleteFunc(slices.Clone(namespaces), func(name string) bool {
		_, exists := s.Namespaces[name]
		return s.NamespacesKnown && !exists
	})
}

// references returns the Services that the webhooks call, also those behind an
// APIService that a webhook goes through.
func references(s *inventory.Snapshot) map[inventory.Key]bool {
	out := map[inventory.Key]bool{}
	for i := range s.Webhooks {
		switch b := &s.Webhooks[i].Backend; b.Kind {
		case inventory.BackendService:
			out[b.Service.Key()] = true
		case inventory.BackendAPIServer:
			if called := s.State(*b).Service; called != b.Service {
				out[called.Key()] = true
			}
		}
	}
	return out
}
