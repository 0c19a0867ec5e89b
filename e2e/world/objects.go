package world

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/apply"
	"github.com/webhook-auditor/webhook-auditor/e2e/webhook"
)

// Patience bounds most waits of a test.
const Patience = 30 * time.Second

// Namespace makes a namespace.
func (w *World) Namespace(t testing.TB, name string) {
	t.Helper()
	_, err := w.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	Must(t, err)
}

// Backend makes a namespace with a healthy backend called hook in it.
func (w *World) Backend(t testing.TB, namespace string) webhook.Backend {
	t.Helper()
	b := webhook.Backend{Client: w.Kube, Namespace: namespace, Name: "hook", Server: w.Hooks}
	Must(t, b.Create(t.Context()))
	return b
}

// Hook is a webhook that fails closed and sees nothing but its backend's own
// namespace.
func Hook(b webhook.Backend, rules ...admissionv1.RuleWithOperations) admissionv1.ValidatingWebhook {
	return admissionv1.ValidatingWebhook{
		Name:                    b.Namespace + ".e2e.example.com",
		ClientConfig:            b.Admission("/allow"),
		Rules:                   rules,
		NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: b.Namespace}},
		SideEffects:             new(admissionv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"},
	}
}

// CatchAll is a webhook on everything ("*", or "*/*" with subresources) that
// fails closed, and whose Service is not there.
func CatchAll(resources string) admissionv1.ValidatingWebhook {
	path := "/"
	return admissionv1.ValidatingWebhook{
		Name:         "all.e2e.example.com",
		ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "gone", Name: "gone", Path: &path}},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.OperationAll},
			Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{resources}},
		}},
		SideEffects:             new(admissionv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"},
	}
}

// Hanging is a webhook as CatchAll is, whose backend never answers: every write
// lasts as long as the API server waits for it, ten seconds.
func Hanging(b webhook.Backend, resources string) admissionv1.ValidatingWebhook {
	h := CatchAll(resources)
	h.ClientConfig = b.Admission("/delay/1h")
	return h
}

// Rule covers the creation of a resource, in any version of its group.
func Rule(group, resource string) admissionv1.RuleWithOperations {
	return admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
	}
}

// Validate registers webhooks until the end of the test.
func (w *World) Validate(t testing.TB, name string, hooks ...admissionv1.ValidatingWebhook) {
	t.Helper()
	_, err := w.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks:   hooks,
	}, metav1.CreateOptions{})
	Must(t, err)
	t.Cleanup(func() { w.Unregister(t, name) })
}

// Unregister removes a validating configuration, if it is still there.
func (w *World) Unregister(t testing.TB, name string) {
	t.Helper()
	err := w.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(context.Background(), name, metav1.DeleteOptions{})
	Must(t, ignoreMissing(err))
}

// Mutate registers the same webhook as a mutating one until the end of the test.
func (w *World) Mutate(t testing.TB, name string, h admissionv1.ValidatingWebhook) {
	t.Helper()
	client := w.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := client.Create(t.Context(), &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name:                    h.Name,
			ClientConfig:            h.ClientConfig,
			Rules:                   h.Rules,
			FailurePolicy:           h.FailurePolicy,
			NamespaceSelector:       h.NamespaceSelector,
			SideEffects:             h.SideEffects,
			AdmissionReviewVersions: h.AdmissionReviewVersions,
		}},
	}, metav1.CreateOptions{})
	Must(t, err)
	t.Cleanup(func() { Must(t, ignoreMissing(client.Delete(context.Background(), name, metav1.DeleteOptions{}))) })
}

func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Widgets makes a CRD with the versions v1 (stored) and v2 until the end of
// the test.
func (w *World) Widgets(t testing.TB, group string, conversion *apiextensionsv1.CustomResourceConversion) {
	t.Helper()
	client := w.CRDs.ApiextensionsV1().CustomResourceDefinitions()
	name := "widgets." + group
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group:      group,
			Names:      apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Scope:      apiextensionsv1.NamespaceScoped,
			Conversion: conversion,
		},
	}
	for _, version := range []string{"v1", "v2"} {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: version == "v1",
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
		})
	}
	_, err := client.Create(t.Context(), crd, metav1.CreateOptions{})
	Must(t, err)
	t.Cleanup(func() { Must(t, ignoreMissing(client.Delete(context.Background(), name, metav1.DeleteOptions{}))) })
	w.established(t, name)
}

func (w *World) established(t testing.TB, name string) {
	t.Helper()
	Eventually(t, Patience, func() error {
		crd, err := w.CRDs.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
			return apierrors.NewServiceUnavailable("not established")
		}
		return err
	})
}

// Install applies manifests, and waits for the CRDs among them.
func (w *World) Install(t testing.TB, manifest []byte) {
	t.Helper()
	objects, err := apply.Objects(manifest)
	Must(t, err)
	client, err := apply.New(w.Plane.Config())
	Must(t, err)
	Must(t, client.Apply(t.Context(), objects...))
	for _, o := range objects {
		if o.GetKind() == "CustomResourceDefinition" {
			w.established(t, o.GetName())
		}
	}
}

// OpenShift is a file of the module github.com/openshift/api.
func OpenShift(t testing.TB, path string) []byte {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/openshift/api").Output()
	Must(t, err)
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(output)), filepath.FromSlash(path)))
	Must(t, err)
	return text
}
