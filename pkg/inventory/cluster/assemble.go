package cluster

import (
	"cmp"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		ServicesKnown:   coverage(results, corev1.Resource("services").String()),
		EndpointsKnown:  coverage(results, discoveryv1.Resource("endpointslices").String()),
	}
	if f.openShift {
		// Source: OpenShift's kube-apiserver operator sets the flag.
		o.Routing = inventory.RoutingEndpoints
	}
	failures := slices.Clone(f.failures)
	for _, r := range results {
		add(&o, r.objects)
		if r.GroupResource == corev1.Resource("namespaces") {
			o.NamespacesKnown = r.known
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
		}
	}
}

// coverage tells in which namespaces all Services that matter are known: those
// that some webhook names.
func coverage(results []result, resource string) inventory.Coverage {
	known := map[string]bool{}
	for _, r := range results {
		if r.GroupResource.String() != resource {
			continue
		}
		before, seen := known[r.service.Namespace]
		known[r.service.Namespace] = r.known && (before || !seen)
	}
	return inventory.Coverage{Namespaces: known}
}

// wanted returns what is read because some webhook names it: the Services and,
// by keys without a name, the Pods of the namespaces from which a failure would
// close the API.
func wanted(s *inventory.Snapshot) map[inventory.Key]bool {
	out := references(s)
	for i := range s.Webhooks {
		w := &s.Webhooks[i]
		if w.FailsClosed() && w.Backend.Kind != inventory.BackendURL {
			out[inventory.Key{Namespace: s.State(w.Backend).Service.Namespace}] = true
		}
	}
	return out
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
