package inventory

import (
	"maps"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Apply returns the objects of a cluster with the configurations, admission policies,
// CRDs, namespaces and new Services of manifests, as after kubectl apply: what the manifests lack
// stays, also a CA bundle that an injector wrote. Of a Service that is new it is not
// known what will be behind it.
func (o Objects) Apply(manifests Objects) Objects {
	o.Mutating = applied(o.Mutating, manifests.Mutating, withBundles)
	o.Validating = applied(o.Validating, manifests.Validating, withBundles)
	o.CRDs = applied(o.CRDs, manifests.CRDs, func(was, now *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
		now = withBundles(was, now)
		now.Status = was.Status
		return now
	})
	o.Namespaces = applied(o.Namespaces, manifests.Namespaces, func(was, now *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
		now, labels := now.DeepCopy(), map[string]string{}
		maps.Copy(labels, was.Labels)
		maps.Copy(labels, now.Labels)
		now.Labels = labels
		return now
	})
	o.MutatingPolicies = applied(o.MutatingPolicies, manifests.MutatingPolicies, replaced)
	o.MutatingPolicyBindings = applied(o.MutatingPolicyBindings, manifests.MutatingPolicyBindings, replaced)
	o.ValidatingPolicies = applied(o.ValidatingPolicies, manifests.ValidatingPolicies, replaced)
	o.ValidatingPolicyBindings = applied(o.ValidatingPolicyBindings, manifests.ValidatingPolicyBindings, replaced)
	o = o.withServices(manifests.Services)
	o.Sources, o.Inputs = manifests.Sources, slices.Clone(manifests.Inputs)
	for i := range o.Inputs {
		o.Inputs[i].Lacks = nil // the cluster has it
	}
	o.Errors = slices.Concat(o.Errors, manifests.Errors)
	return o
}

// applied replaces the objects of the same name by what merge makes of both, and
// appends the others.
func applied[T metav1.Object](old, updated []T, merge func(was, now T) T) []T {
	out, at := slices.Clone(old), map[string]int{}
	for i, object := range out {
		at[object.GetName()] = i
	}
	for _, object := range updated {
		if i, exists := at[object.GetName()]; exists {
			out[i] = merge(out[i], object)
		} else {
			at[object.GetName()] = len(out)
			out = append(out, object)
		}
	}
	return out
}

// replaced is an object of which nothing stays that the manifest lacks.
func replaced[T any](_, now T) T { return now }

// withBundles is the object with the CA bundles that an injector has put in place of those
// that say nothing.
func withBundles[T runtime.Object](was, now T) T {
	now = now.DeepCopyObject().(T)
	before := bundles(was)
	for name, bundle := range bundles(now) {
		if injected := before[name]; injected != nil && (len(*bundle) == 0 || placeholder(*bundle)) {
			*bundle = *injected
		}
	}
	return now
}

// bundles are the CA bundles of a registration, by the names of its webhooks.
func bundles(registration any) map[string]*[]byte {
	out := map[string]*[]byte{}
	switch o := registration.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			out[o.Webhooks[i].Name] = &o.Webhooks[i].ClientConfig.CABundle
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			out[o.Webhooks[i].Name] = &o.Webhooks[i].ClientConfig.CABundle
		}
	case *apiextensionsv1.CustomResourceDefinition:
		if c := o.Spec.Conversion; c != nil && c.Webhook != nil && c.Webhook.ClientConfig != nil {
			out[o.Name] = &c.Webhook.ClientConfig.CABundle
		}
	}
	return out
}

// withServices adds the Services that are new.
func (o Objects) withServices(services []*corev1.Service) Objects {
	applied := map[Key]bool{}
	for _, s := range o.Services {
		applied[Key{s.Namespace, s.Name}] = true
	}
	unknown := map[Key]bool{}
	for _, s := range services {
		if key := (Key{s.Namespace, s.Name}); !applied[key] && !unknown[key] {
			unknown[key] = true
			o.Services = append(slices.Clip(o.Services), s)
		}
	}
	if len(unknown) == 0 {
		return o
	}
	coverage := o.EndpointsKnown
	o.EndpointsKnown = Coverage{Services: map[Key]bool{}}
	maps.Copy(o.EndpointsKnown.Services, coverage.Services)
	for key := range applied {
		if coverage.Has(key) {
			o.EndpointsKnown.Services[key] = true
		}
	}
	return o
}
