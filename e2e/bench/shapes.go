package main

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// shape is a kind of cluster that makes some analysis of several webhooks expensive:
// its i-th of n webhooks, each in a configuration of its own.
type shape struct {
	name     string
	mutating bool
	webhook  func(i, n int) admissionv1.ValidatingWebhook
}

// written is a label of all that the benchmark writes once webhooks are registered:
// those without a backend must not refuse it.
const written = "bench.example.com/written"

var shapes = []shape{
	{name: "all alike, failurePolicy Fail on Pods", webhook: func(int, int) admissionv1.ValidatingWebhook { return onPods(0) }},
	{name: "every backend its own Service", webhook: func(i, _ int) admissionv1.ValidatingWebhook { return onPods(i) }},
	{name: "one cycle through all", webhook: func(i, n int) admissionv1.ValidatingWebhook {
		return inNamespaces(onPods(i), metav1.LabelSelectorOpIn, hookNamespace((i+1)%n))
	}},
	{name: "each excludes itself", webhook: func(i, _ int) admissionv1.ValidatingWebhook {
		return inNamespaces(onPods(i), metav1.LabelSelectorOpNotIn, hookNamespace(i))
	}},
	{name: "all reinvocable catch-alls", mutating: true, webhook: func(i, _ int) admissionv1.ValidatingWebhook {
		return inNamespaces(hookOn(i, "*", "*/*"), metav1.LabelSelectorOpNotIn, "default", "kube-system", "kube-public", "kube-node-lease")
	}},
	{name: "one name for all", webhook: func(i, _ int) admissionv1.ValidatingWebhook {
		w := onPods(i)
		w.Name = "policy.example.com"
		return w
	}},
	{name: "all different", webhook: func(i, _ int) admissionv1.ValidatingWebhook {
		w := hookOn(i, crdGroup(i), "widgets")
		w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{fmt.Sprintf("key-%d", i): "x"}}
		return w
	}},
}

// hookOn calls a Service of a namespace of its own.
func hookOn(i int, group, resource string) admissionv1.ValidatingWebhook {
	scope := admissionv1.NamespacedScope
	return admissionv1.ValidatingWebhook{
		Name:          fmt.Sprintf("hook-%d.example.com", i),
		ClientConfig:  admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: hookNamespace(i), Name: "webhook-0"}},
		FailurePolicy: new(admissionv1.Fail),
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}, Scope: &scope},
		}},
		ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: written, Operator: metav1.LabelSelectorOpDoesNotExist,
		}}},
		SideEffects:             new(admissionv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"},
	}
}

func onPods(i int) admissionv1.ValidatingWebhook { return hookOn(i, "", "pods") }

func inNamespaces(w admissionv1.ValidatingWebhook, operator metav1.LabelSelectorOperator, names ...string) admissionv1.ValidatingWebhook {
	w.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: operator, Values: names,
	}}}
	return w
}

// configuration is the i-th of n configurations of the shape.
func (s shape) configuration(name string, i, n int) any {
	w := s.webhook(i, n)
	meta := metav1.ObjectMeta{Name: name}
	if !s.mutating {
		return &admissionv1.ValidatingWebhookConfiguration{
			TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration"},
			ObjectMeta: meta, Webhooks: []admissionv1.ValidatingWebhook{w},
		}
	}
	return &admissionv1.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: meta, Webhooks: []admissionv1.MutatingWebhook{{
			Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector,
			FailurePolicy: w.FailurePolicy, SideEffects: w.SideEffects, AdmissionReviewVersions: w.AdmissionReviewVersions,
			ReinvocationPolicy: new(admissionv1.IfNeededReinvocationPolicy),
		}},
	}
}
