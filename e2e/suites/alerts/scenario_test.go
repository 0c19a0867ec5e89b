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

// webhook is the name of the scenario's admission webhook.
func (s scenario) webhook() string { return s.name + ".alerts.example.com" }

// group is the API group of the scenario's CRD.
func (s scenario) group() string { return s.name + ".example.com" }

// crd is the name of the scenario's CRD.
func (s scenario) crd() string { return "widgets." + s.group() }

func newScenario(t testing.TB, w environment, name string) scenario {
	t.Helper()
	s := scenario{environment: w, name: name, backend: webhook.Backend{Client: w.Kube, Namespace: name, Name: "hook", Server: w.Hooks}}
	testenv.Must(t, s.backend.Create(t.Context()))
	_, err := w.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace()}}, metav1.CreateOptions{})
	testenv.Must(t, err)
	return s
}

// configuration registers the scenario's webhook for the given rule. It is
// approved, so that no finding says otherwise.
func (s scenario) configuration(rule admissionv1.Rule) *admissionv1.ValidatingWebhookConfiguration {
	rule.APIVersions = []string{"*"}
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Annotations: map[string]string{"webhook-approved.openshift.io": "https://example.com/pull/1"}},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name:         s.webhook(),
			ClientConfig: s.backend.Admission(s.path()),
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
				Rule:       rule,
			}},
			NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace()},
			},
			TimeoutSeconds:          new(int32(5)),
			SideEffects:             new(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

func (s scenario) register(ctx context.Context, c *admissionv1.ValidatingWebhookConfiguration) error {
	_, err := s.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, c, metav1.CreateOptions{})
	return err
}

func (s scenario) unregister(ctx context.Context) error {
	return s.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, s.name, metav1.DeleteOptions{})
}

// registerMutating registers what a validating configuration says as mutating.
func (s scenario) registerMutating(ctx context.Context, c *admissionv1.ValidatingWebhookConfiguration) error {
	w := c.Webhooks[0]
	_, err := s.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: c.ObjectMeta,
		Webhooks: []admissionv1.MutatingWebhook{{
			Name:                    w.Name,
			ClientConfig:            w.ClientConfig,
			Rules:                   w.Rules,
			NamespaceSelector:       w.NamespaceSelector,
			SideEffects:             w.SideEffects,
			AdmissionReviewVersions: w.AdmissionReviewVersions,
		}},
	}, metav1.CreateOptions{})
	return err
}

// change changes the scenario's webhook as it is registered.
func (s scenario) change(ctx context.Context, change func(*admissionv1.ValidatingWebhook)) error {
	configurations := s.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	c, err := configurations.Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	change(&c.Webhooks[0])
	_, err = configurations.Update(ctx, c, metav1.UpdateOptions{})
	return err
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
func (s scenario) createConfigMap(ctx context.Context, _ int) error {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "user-"}}
	_, err := s.Kube.CoreV1().ConfigMaps(s.namespace()).Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// createLease is a dry run as well.
func (s scenario) createLease(ctx context.Context, _ int) error {
	object := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{GenerateName: "user-"}}
	_, err := s.Kube.CoordinationV1().Leases(s.namespace()).Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

func (s scenario) readWidget(ctx context.Context, _ int) error {
	_, err := s.widgets("v2").Get(ctx, "one", metav1.GetOptions{})
	return err
}

// makePods makes what touchPod touches, one for each user.
func (s scenario) makePods(t *testing.T, users int) {
	t.Helper()
	for user := range users {
		_, err := s.Kube.CoreV1().Pods(s.namespace()).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: owned(user)},
			Spec:       oneContainer(),
		}, metav1.CreateOptions{})
		testenv.Must(t, err)
	}
}

// makeTemplates makes what touchTemplate touches, one for each user.
func (s scenario) makeTemplates(t *testing.T, users int) {
	t.Helper()
	for user := range users {
		_, err := s.Kube.CoreV1().PodTemplates(s.namespace()).Create(t.Context(), &corev1.PodTemplate{
			ObjectMeta: metav1.ObjectMeta{Name: owned(user)},
			Template:   corev1.PodTemplateSpec{Spec: oneContainer()},
		}, metav1.CreateOptions{})
		testenv.Must(t, err)
	}
}

func oneContainer() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/main"}}}
}

// owned is the name of a user's object.
func owned(user int) string { return fmt.Sprintf("of-user-%d", user) }

func (s scenario) touchPod(ctx context.Context, user int) error {
	_, err := s.Kube.CoreV1().Pods(s.namespace()).Patch(ctx, owned(user), types.MergePatchType, touch(), metav1.PatchOptions{})
	return err
}

func (s scenario) touchTemplate(ctx context.Context, user int) error {
	_, err := s.Kube.CoreV1().PodTemplates(s.namespace()).Patch(ctx, owned(user), types.MergePatchType, touch(), metav1.PatchOptions{})
	return err
}

func touch() []byte {
	return fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":%q}}}`, time.Now())
}
