package alerts

import (
	"context"
	"fmt"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// scenario is where one incident happens: a webhook, its backend, and a namespace
// of users whose requests it is called for.
type scenario struct {
	environment
	name    string
	backend webhook.Backend
	slow    bool // requests wait for it
}

// namespace is that of the users whose requests the webhook is called for; it
// is not the backend's, which would be a finding.
func (s scenario) namespace() string { return s.name + "-users" }

func (s scenario) path() string { return "/" + s.name }

func (s scenario) webhook() string { return s.name + ".alerts.example.com" }

func (s scenario) group() string { return s.name + ".example.com" }

func (s scenario) crd() string { return "widgets." + s.group() }

func newScenario(t testing.TB, w environment, name string) scenario {
	t.Helper()
	s := scenario{environment: w, name: name, backend: webhook.Backend{Client: w.Kube, Namespace: name, Name: "hook", Server: w.Hooks}}
	testenv.Must(t, s.backend.Create(t.Context()))
	testenv.Get(w.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace()}}, metav1.CreateOptions{}))(t)
	return s
}

// configuration registers the scenario's webhook for the given rule. It is
// approved, so that no finding says otherwise.
func (s scenario) configuration(rule admissionv1.Rule) *admissionv1.ValidatingWebhookConfiguration {
	rule.APIVersions = []string{"*"}
	hook := testenv.Hook(s.backend, s.path(), admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}, Rule: rule})
	hook.Name, hook.TimeoutSeconds = s.webhook(), new(int32(5))
	hook.NamespaceSelector.MatchLabels[corev1.LabelMetadataName] = s.namespace()
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Annotations: map[string]string{"webhook-approved.openshift.io": "https://example.com/pull/1"}},
		Webhooks:   []admissionv1.ValidatingWebhook{hook},
	}
}

func (s scenario) register(ctx context.Context, c *admissionv1.ValidatingWebhookConfiguration) error {
	_, err := s.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, c, metav1.CreateOptions{})
	return err
}

func (s scenario) unregister(ctx context.Context) error {
	return s.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, s.name, metav1.DeleteOptions{})
}

// install makes the scenario's CRD, whose objects are stored in v1 and read in v2,
// and one object of it.
func (s scenario) install(t *testing.T) {
	t.Helper()
	s.Widgets(t, s.group(), s.backend.Conversion(s.path()))
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": s.group() + "/v1", "kind": "Widget", "metadata": map[string]any{"name": "one"},
	}}
	eventually(t, func(ctx context.Context) error {
		_, err := s.widgets("v1").Create(ctx, object, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

func (s scenario) widgets(version string) dynamic.ResourceInterface {
	return s.Dynamic.Resource(schema.GroupVersionResource{Group: s.group(), Version: version, Resource: "widgets"}).Namespace(s.namespace())
}

// traffic has so many users send requests from now on.
func (s scenario) traffic(count int, request func(ctx context.Context, user int) error) {
	all := &s.users.quick
	if s.slow {
		all = &s.users.slow
	}
	for user := range count {
		*all = append(*all, func(ctx context.Context) error { return request(ctx, user) })
	}
}

// createConfigMap is a dry run, which webhooks are asked about as about any
// request.
func (s scenario) createConfigMap(ctx context.Context, _ int) error { return s.create(ctx, nil) }

func (s scenario) create(ctx context.Context, labels map[string]string) error {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "user-", Labels: labels}}
	_, err := s.Kube.CoreV1().ConfigMaps(s.namespace()).Create(ctx, object, testenv.DryRun)
	return err
}

// createLease is a dry run as well.
func (s scenario) createLease(ctx context.Context, _ int) error {
	object := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{GenerateName: "user-"}}
	_, err := s.Kube.CoordinationV1().Leases(s.namespace()).Create(ctx, object, testenv.DryRun)
	return err
}

func (s scenario) readWidget(ctx context.Context, _ int) error {
	_, err := s.widgets("v2").Get(ctx, "one", metav1.GetOptions{})
	return err
}

// objects are the Pods or PodTemplates of the scenario's users.
func (s scenario) objects(resource string) dynamic.ResourceInterface {
	return s.Dynamic.Resource(corev1.SchemeGroupVersion.WithResource(resource)).Namespace(s.namespace())
}

// touching has users change an object of their own each.
func (s scenario) touching(t *testing.T, resource string, users int) {
	t.Helper()
	spec := map[string]any{"containers": []any{map[string]any{"name": "main", "image": "example.com/main"}}}
	of := map[string]map[string]any{
		"pods":         {"kind": "Pod", "spec": spec},
		"podtemplates": {"kind": "PodTemplate", "template": map[string]any{"spec": spec}},
	}[resource]
	for user := range users {
		object := &unstructured.Unstructured{Object: of}
		object.SetAPIVersion("v1")
		object.SetName(owned(user))
		testenv.Get(s.objects(resource).Create(t.Context(), object, metav1.CreateOptions{}))(t)
	}
	s.traffic(users, s.touches(resource))
}

func owned(user int) string { return fmt.Sprintf("of-user-%d", user) }

// touches has a user change an object of one's own.
func (s scenario) touches(resource string) func(context.Context, int) error {
	return func(ctx context.Context, user int) error {
		_, err := s.objects(resource).Patch(ctx, owned(user), types.MergePatchType, touch(), metav1.PatchOptions{})
		return err
	}
}

func touch() []byte {
	return fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":%q}}}`, time.Now())
}
