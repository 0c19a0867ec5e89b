package inventory

import (
	"maps"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Apply returns the objects of a cluster with the configurations, admission policies,
// CRDs, namespaces and new Services of manifests, as after kubectl apply: what the manifests lack
// stays, also a CA bundle that an injector wrote. Of a Service that is new it is not
// known what will be behind it.
func (o Objects) Apply(manifests Objects) Objects {
	o.Mutating = applied(o.Mutating, manifests.Mutating, func(was, now *admissionv1.MutatingWebhookConfiguration) *admissionv1.MutatingWebhookConfiguration {
		now = now.DeepCopy()
		for i := range now.Webhooks {
			w := &now.Webhooks[i]
			if j := slices.IndexFunc(was.Webhooks, func(o admissionv1.MutatingWebhook) bool { return o.Name == w.Name }); j >= 0 {
				w.ClientConfig.CABundle = keptBundle(was.Webhooks[j].ClientConfig.CABundle, w.ClientConfig.CABundle)
			}
		}
		return now
	})
	o.Validating = applied(o.Validating, manifests.Validating, func(was, now *admissionv1.ValidatingWebhookConfiguration) *admissionv1.ValidatingWebhookConfiguration {
		now = now.DeepCopy()
		for i := range now.Webhooks {
			w := &now.Webhooks[i]
			if j := slices.IndexFunc(was.Webhooks, func(o admissionv1.ValidatingWebhook) bool { return o.Name == w.Name }); j >= 0 {
				w.ClientConfig.CABundle = keptBundle(was.Webhooks[j].ClientConfig.CABundle, w.ClientConfig.CABundle)
			}
		}
		return now
	})
	o.CRDs = applied(o.CRDs, manifests.CRDs, appliedCRD)
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

// keptBundle is the CA bundle after an injector has replaced one that says nothing.
func keptBundle(was, now []byte) []byte {
	if len(now) == 0 || placeholder(now) {
		return was
	}
	return now
}

func appliedCRD(was, now *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	now = now.DeepCopy()
	now.Status = was.Status
	before, after := was.Spec.Conversion, now.Spec.Conversion
	if before != nil && after != nil && before.Webhook != nil && after.Webhook != nil && before.Webhook.ClientConfig != nil && after.Webhook.ClientConfig != nil {
		after.Webhook.ClientConfig.CABundle = keptBundle(before.Webhook.ClientConfig.CABundle, after.Webhook.ClientConfig.CABundle)
	}
	return now
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
