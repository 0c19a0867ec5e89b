package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/openshift/api/config/v1/zz_generated.crd-manifests" // holds the version of its files below
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/apply"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// DryRun sends a request through all webhooks and stores nothing.
var DryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// PodSpec is a Pod of one container.
func PodSpec() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/main:v1"}}}
}

// Namespace creates a namespace.
func (e *Env) Namespace(t testing.TB, name string) {
	t.Helper()
	e.LabelledNamespace(t, name, nil)
}

// LabelledNamespace creates a namespace with labels.
func (e *Env) LabelledNamespace(t testing.TB, name string, labels map[string]string) *corev1.Namespace {
	t.Helper()
	e.absent(t, name)
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	return Get(e.Kube.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{}))(t)
}

// Backend creates a namespace with a healthy backend called hook in it.
func (e *Env) Backend(t testing.TB, namespace string) webhook.Backend {
	t.Helper()
	e.absent(t, namespace)
	b := webhook.Backend{Client: e.Kube, Namespace: namespace, Name: "hook", Server: e.Hooks}
	Must(t, b.Create(t.Context()))
	if e.shared {
		t.Cleanup(func() {
			Gone(t, e.Kube.CoreV1().Namespaces().Delete(context.Background(), namespace, metav1.DeleteOptions{}))
		})
	}
	return b
}

// absent waits until a namespace of the name, which an earlier test deleted, is gone.
func (e *Env) absent(t testing.TB, namespace string) {
	t.Helper()
	Eventually(t, func() error {
		earlier, err := e.Kube.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
		if err == nil && earlier.DeletionTimestamp != nil {
			return apierrors.NewConflict(corev1.Resource("namespaces"), namespace, errors.New("it is still being deleted"))
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// Gone reports the error of a deletion, unless the object was deleted before.
func Gone(t testing.TB, err error) {
	t.Helper()
	if err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("cleaning up: %v", err)
	}
}

// IgnoreExisting is nil where the error says that the object exists.
func IgnoreExisting(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Hook is a webhook that behaves as its path says, fails closed, and is called for
// nothing outside its backend's namespace, so that tests do not disturb each other.
func Hook(b webhook.Backend, path string, rules ...admissionv1.RuleWithOperations) admissionv1.ValidatingWebhook {
	return admissionv1.ValidatingWebhook{
		Name:                    b.Namespace + ".e2e.example.com",
		ClientConfig:            b.Admission(path),
		Rules:                   rules,
		NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: b.Namespace}},
		SideEffects:             new(admissionv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"},
	}
}

// Mutating is the same webhook registered as a mutating one.
func Mutating(h admissionv1.ValidatingWebhook) admissionv1.MutatingWebhook {
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

// CatchAll is a webhook on everything ("*", or "*/*" with subresources) that
// fails closed, and whose Service is missing.
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

// Validate registers validating webhooks until the end of the test.
func (e *Env) Validate(t testing.TB, name string, hooks ...admissionv1.ValidatingWebhook) *admissionv1.ValidatingWebhookConfiguration {
	t.Helper()
	made, err := e.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks:   hooks,
	}, metav1.CreateOptions{})
	Must(t, err)
	t.Cleanup(func() { e.Unregister(t, name) })
	return made
}

// Unregister removes a validating configuration, if it is still there.
func (e *Env) Unregister(t testing.TB, name string) {
	t.Helper()
	Gone(t, e.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(context.Background(), name, metav1.DeleteOptions{}))
}

// Mutate registers mutating webhooks until the end of the test.
func (e *Env) Mutate(t testing.TB, name string, hooks ...admissionv1.MutatingWebhook) *admissionv1.MutatingWebhookConfiguration {
	t.Helper()
	client := e.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	made, err := client.Create(t.Context(), &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks:   hooks,
	}, metav1.CreateOptions{})
	Must(t, err)
	t.Cleanup(func() { Gone(t, client.Delete(context.Background(), name, metav1.DeleteOptions{})) })
	return made
}

// CreateConfigMap is the request that most webhooks of the tests are called for.
func (e *Env) CreateConfigMap(t testing.TB, namespace string) (*corev1.ConfigMap, error) {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
	return e.Kube.CoreV1().ConfigMaps(namespace).Create(t.Context(), object, metav1.CreateOptions{})
}

// Refused returns an error unless the creation of a ConfigMap fails with the text.
func (e *Env) Refused(t testing.TB, namespace, text string) error {
	t.Helper()
	_, err := e.CreateConfigMap(t, namespace)
	if err == nil || !strings.Contains(err.Error(), text) {
		return fmt.Errorf("want an error with %q, have %v", text, err)
	}
	return nil
}

// Widgets creates a CRD with the versions v1 (stored) and v2 until the end of the
// test, waits until it is served, and returns its name.
func (e *Env) Widgets(t testing.TB, group string, conversion *apiextensionsv1.CustomResourceConversion) string {
	t.Helper()
	name := "widgets." + group
	version := func(name string, stored bool) apiextensionsv1.CustomResourceDefinitionVersion {
		anything := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}
		return apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: true, Storage: stored, Schema: anything}
	}
	_, err := e.CRDs.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group:      group,
			Names:      apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Scope:      apiextensionsv1.NamespaceScoped,
			Versions:   []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true), version("v2", false)},
			Conversion: conversion,
		},
	}, metav1.CreateOptions{})
	Must(t, err)
	t.Cleanup(func() { e.Uninstall(t, name) })
	e.established(t, name)
	return name
}

// Uninstall removes a CRD, if it is still there.
func (e *Env) Uninstall(t testing.TB, name string) {
	t.Helper()
	Gone(t, e.CRDs.ApiextensionsV1().CustomResourceDefinitions().Delete(context.Background(), name, metav1.DeleteOptions{}))
}

func (e *Env) established(t testing.TB, name string) {
	t.Helper()
	Eventually(t, func() error {
		crd, err := e.CRDs.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
			return apierrors.NewServiceUnavailable("not established")
		}
		return err
	})
}

// WidgetClient reads and writes widgets in one version.
func (e *Env) WidgetClient(group, version string) dynamic.ResourceInterface {
	return e.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: "widgets"}).Namespace(metav1.NamespaceDefault)
}

// CreateWidget creates a widget in its stored version.
func (e *Env) CreateWidget(t testing.TB, group, name string) error {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(group + "/v1")
	object.SetKind("Widget")
	object.SetName(name)
	_, err := e.WidgetClient(group, "v1").Create(t.Context(), object, metav1.CreateOptions{})
	return err
}

// Install applies manifests, and waits for the CRDs among them.
func (e *Env) Install(t testing.TB, manifest []byte) {
	t.Helper()
	objects := Get(apply.Objects(manifest))(t)
	Must(t, apply.Apply(t.Context(), e.Plane.Config(), objects...))
	for _, o := range objects {
		if o.GetKind() == "CustomResourceDefinition" {
			e.established(t, o.GetName())
		}
	}
}

// OpenShift is a file of the module github.com/openshift/api.
func OpenShift(t testing.TB, path string) []byte {
	t.Helper()
	output := Get(exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/openshift/api").Output())(t)
	return Get(os.ReadFile(filepath.Join(strings.TrimSpace(string(output)), filepath.FromSlash(path))))(t)
}
