package e2e

import (
	"context"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/webhook-auditor/webhook-auditor/e2e/webhook"
)

// backend makes a namespace with a healthy backend called hook in it.
func (w *world) backend(t *testing.T, namespace string) webhook.Backend {
	t.Helper()
	b := webhook.Backend{Client: w.kube, Namespace: namespace, Name: "hook", Server: w.hooks}
	must(t, b.Create(t.Context()))
	t.Cleanup(func() {
		gone(t, w.kube.CoreV1().Namespaces().Delete(context.Background(), namespace, metav1.DeleteOptions{}))
	})
	return b
}

// gone accepts that what is cleaned up has left before.
func gone(t *testing.T, err error) {
	t.Helper()
	if err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("cleaning up: %v", err)
	}
}

// hook is the one webhook of a configuration. It is as its path says, fails
// closed, and sees nothing but its backend's own namespace, so that tests do
// not meet each other's.
func hook(b webhook.Backend, path string, rules ...admissionv1.RuleWithOperations) admissionv1.ValidatingWebhook {
	return admissionv1.ValidatingWebhook{
		Name:         b.Namespace + ".e2e.example.com",
		ClientConfig: b.Admission(path),
		Rules:        rules,
		NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{corev1.LabelMetadataName: b.Namespace},
		},
		SideEffects:             new(admissionv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"},
	}
}

// mutating is the same webhook registered as a mutating one.
func mutating(h admissionv1.ValidatingWebhook) admissionv1.MutatingWebhook {
	return admissionv1.MutatingWebhook{
		Name:                    h.Name,
		ClientConfig:            h.ClientConfig,
		Rules:                   h.Rules,
		FailurePolicy:           h.FailurePolicy,
		NamespaceSelector:       h.NamespaceSelector,
		TimeoutSeconds:          h.TimeoutSeconds,
		SideEffects:             h.SideEffects,
		AdmissionReviewVersions: h.AdmissionReviewVersions,
	}
}

// rule covers the creation of a resource, in any version of its group.
func rule(group, resource string) admissionv1.RuleWithOperations {
	return admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule: admissionv1.Rule{
			APIGroups:   []string{group},
			APIVersions: []string{"*"},
			Resources:   []string{resource},
		},
	}
}

// validate registers webhooks until the end of the test.
func (w *world) validate(t *testing.T, name string, hooks ...admissionv1.ValidatingWebhook) *admissionv1.ValidatingWebhookConfiguration {
	t.Helper()
	client := w.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	made, err := client.Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks:   hooks,
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { gone(t, client.Delete(context.Background(), name, metav1.DeleteOptions{})) })
	return made
}

// unregister removes a validating configuration before the end of the test.
func (w *world) unregister(t *testing.T, name string) {
	t.Helper()
	must(t, w.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// mutate registers webhooks until the end of the test.
func (w *world) mutate(t *testing.T, name string, hooks ...admissionv1.MutatingWebhook) *admissionv1.MutatingWebhookConfiguration {
	t.Helper()
	client := w.kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	made, err := client.Create(t.Context(), &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks:   hooks,
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { gone(t, client.Delete(context.Background(), name, metav1.DeleteOptions{})) })
	return made
}

// createConfigMap is the request most webhooks of the tests look at.
func (w *world) createConfigMap(t *testing.T, namespace string) (*corev1.ConfigMap, error) {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
	return w.kube.CoreV1().ConfigMaps(namespace).Create(t.Context(), object, metav1.CreateOptions{})
}

// widgets makes a CRD of the given group with the versions v1 (stored) and v2
// and waits until it is served.
func (w *world) widgets(t *testing.T, group string, conversion *apiextensionsv1.CustomResourceConversion) string {
	t.Helper()
	client := w.crds.ApiextensionsV1().CustomResourceDefinitions()
	name := "widgets." + group
	_, err := client.Create(t.Context(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group:      group,
			Names:      apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Scope:      apiextensionsv1.NamespaceScoped,
			Versions:   []apiextensionsv1.CustomResourceDefinitionVersion{widgetVersion("v1"), widgetVersion("v2")},
			Conversion: conversion,
		},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { w.uninstall(t, name) })
	eventually(t, func() error {
		crd, err := client.Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
			return apierrors.NewServiceUnavailable("not established")
		}
		return err
	})
	return name
}

// uninstall removes a CRD, which may be gone already.
func (w *world) uninstall(t *testing.T, name string) {
	t.Helper()
	gone(t, w.crds.ApiextensionsV1().CustomResourceDefinitions().Delete(context.Background(), name, metav1.DeleteOptions{}))
}

// widgetVersion is a version without any fields; v1 is the stored one.
func widgetVersion(name string) apiextensionsv1.CustomResourceDefinitionVersion {
	return apiextensionsv1.CustomResourceDefinitionVersion{
		Name:    name,
		Served:  true,
		Storage: name == "v1",
		Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"},
		},
	}
}

// widgetClient reads and writes widgets in one version.
func (w *world) widgetClient(group, version string) dynamic.ResourceInterface {
	return w.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: "widgets"}).Namespace(metav1.NamespaceDefault)
}

// createWidget writes a widget in its stored version.
func (w *world) createWidget(t *testing.T, group, name string) error {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(group + "/v1")
	object.SetKind("Widget")
	object.SetName(name)
	_, err := w.widgetClient(group, "v1").Create(t.Context(), object, metav1.CreateOptions{})
	return err
}
