// Package kubetest has the objects of Kubernetes that tests of several packages need.
package kubetest

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rule returns a rule on a resource in all versions; without operations, on all of them.
func Rule(group, resource string, operations ...admissionv1.OperationType) admissionv1.RuleWithOperations {
	if operations == nil {
		operations = []admissionv1.OperationType{admissionv1.OperationAll}
	}
	return admissionv1.RuleWithOperations{
		Operations: operations,
		Rule: admissionv1.Rule{
			APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource},
		},
	}
}

// Selector returns a selector of one requirement.
func Selector(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: key, Operator: operator, Values: values,
	}}}
}

// Client returns how the API server calls a Service.
func Client(namespace, service string) admissionv1.WebhookClientConfig {
	return admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: namespace, Name: service}}
}

// Webhook returns a webhook without side effects.
func Webhook(name string, client admissionv1.WebhookClientConfig,
	rules ...admissionv1.RuleWithOperations,
) admissionv1.ValidatingWebhook {
	return admissionv1.ValidatingWebhook{
		Name: name, ClientConfig: client, Rules: rules,
		SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
	}
}

// Reinvoked returns a webhook like w that mutates, and is called again.
func Reinvoked(w admissionv1.ValidatingWebhook) admissionv1.MutatingWebhook {
	return admissionv1.MutatingWebhook{
		Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, NamespaceSelector: w.NamespaceSelector,
		FailurePolicy: w.FailurePolicy, SideEffects: w.SideEffects, AdmissionReviewVersions: w.AdmissionReviewVersions,
		ReinvocationPolicy: new(admissionv1.IfNeededReinvocationPolicy),
	}
}

// Validating returns a configuration of webhooks.
func Validating(name string, webhooks ...admissionv1.ValidatingWebhook) *admissionv1.ValidatingWebhookConfiguration {
	return &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: webhooks}
}

// Mutating returns a configuration of webhooks.
func Mutating(name string, webhooks ...admissionv1.MutatingWebhook) *admissionv1.MutatingWebhookConfiguration {
	return &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: webhooks}
}

// Policy returns an admission policy.
func Policy(name string, rule admissionv1.RuleWithOperations) *admissionv1.ValidatingAdmissionPolicy {
	return &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: rule}},
			},
		},
	}
}

// Binding returns the binding by which the policy of that name denies.
func Binding(name string) *admissionv1.ValidatingAdmissionPolicyBinding {
	return &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
}

// Namespace returns the metadata of a namespace.
func Namespace(name string, labels map[string]string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

// Service returns a Service that listens at port 443.
func Service(namespace, name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
	}
}

// EndpointSlice returns ready endpoints of a Service.
func EndpointSlice(namespace, service string, addresses ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		Ports: []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(8443))}},
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}
	return slice
}

// CRD returns a CustomResourceDefinition of the kind Widget, whose last version is stored.
func CRD(group, plural string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	c := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: "widget", Kind: "Widget"},
		},
	}
	for i, version := range versions {
		c.Spec.Versions = append(c.Spec.Versions,
			apiextensionsv1.CustomResourceDefinitionVersion{Name: version, Served: true, Storage: i == len(versions)-1})
	}
	return c
}
