package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/webhook-auditor/webhook-auditor/e2e/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/webhook"
)

// approval is the annotation that makes informational findings leave.
const approval = `{"metadata":{"annotations":{"webhook-approved.openshift.io":%s}}}`

// unstored sends a request through all webhooks and stores nothing.
var unstored = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// TestApproval: the API server calls an approved webhook as it calls any other;
// only the finding leaves.
func TestApproval(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		check     string
		namespace string // of the backend
		rule      admissionv1.RuleWithOperations
		request   func(*testing.T, *world, webhook.Backend) error
	}{
		{"critical-resource", "classes-critical", rule("", "pods"), createPod},
		{"core-resource", "openshift-e2e-core", rule("apps", "deployments"), createDeployment},
		{"sensitive-resource", "classes-sensitive", rule("", "secrets"), createSecret},
	} {
		t.Run(test.check, func(t *testing.T) {
			t.Parallel()
			w := use(t, stock)
			b := w.backend(t, test.namespace)
			path := "/allow/" + b.Namespace
			h := hook(b, path, test.rule)
			w.validate(t, b.Namespace, h)
			labels := identity("validating", b.Namespace, h.Name)
			watcher := w.watch(t)
			called := func() {
				t.Helper()
				w.hooks.ForgetCallsOf(path)
				eventually(t, func() error {
					if err := test.request(t, w, b); err != nil || len(w.hooks.CallsOf(path)) > 0 {
						return err
					}
					return errors.New("the webhook was not called")
				})
			}
			watcher.finds(test.check, "info", labels)
			called()
			w.approve(t, b.Namespace, `"https://example.com/pull/1"`)
			watcher.forgets(test.check, labels)
			called()
			w.approve(t, b.Namespace, `"by word of mouth"`)
			watcher.finds(test.check, "info", labels)
			watcher.finds("approval-invalid", "info", labels)
			w.approve(t, b.Namespace, "null")
			watcher.forgets("approval-invalid", labels)
			watcher.finds(test.check, "info", labels)
		})
	}
}

func createPod(t *testing.T, w *world, b webhook.Backend) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "e2e"}, Spec: podSpec()}
	_, err := w.kube.CoreV1().Pods(b.Namespace).Create(t.Context(), pod, unstored)
	return err
}

func createDeployment(t *testing.T, w *world, b webhook.Backend) error {
	labels := map[string]string{"app": "e2e"}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "e2e"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec()},
	}}
	_, err := w.kube.AppsV1().Deployments(b.Namespace).Create(t.Context(), deployment, unstored)
	return err
}

func createSecret(t *testing.T, w *world, b webhook.Backend) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "e2e"}}
	_, err := w.kube.CoreV1().Secrets(b.Namespace).Create(t.Context(), secret, unstored)
	return err
}

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/main:v1"}}}
}

// approve sets the approval of a validating configuration to a JSON value.
func (w *world) approve(t *testing.T, configuration, value string) {
	t.Helper()
	_, err := w.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(t.Context(), configuration,
		types.MergePatchType, fmt.Appendf(nil, approval, value), metav1.PatchOptions{})
	must(t, err)
}

func TestURLBackendIsAThirdParty(t *testing.T) {
	t.Parallel()
	w := use(t, stock)
	b := w.backend(t, "classes-url")
	h := hook(b, "", rule("", "pods"))
	h.ClientConfig = admissionv1.WebhookClientConfig{URL: new(w.hooks.URL("/allow/url")), CABundle: w.hooks.CABundle()}
	w.validate(t, b.Namespace, h)
	labels := identity("validating", b.Namespace, h.Name)
	watcher := w.watch(t)
	watcher.finds("critical-resource", "info", labels)
	w.unregister(t, b.Namespace)
	watcher.forgets("critical-resource", labels)
}

// virtual is a resource that is never stored, and a request for it.
type virtual struct {
	name    string
	rule    admissionv1.RuleWithOperations
	request func(*testing.T, *world, webhook.Backend) error
}

var (
	tokenReviews = virtual{"tokenreviews", rule("authentication.k8s.io", "tokenreviews"), func(t *testing.T, w *world, _ webhook.Backend) error {
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "of nobody"}}
		_, err := w.kube.AuthenticationV1().TokenReviews().Create(t.Context(), review, metav1.CreateOptions{})
		return err
	}}
	// anyReviews covers them by a wildcard alone.
	anyReviews = virtual{"anyreviews", rule("authentication.k8s.io", "*"), tokenReviews.request}
	bindings   = virtual{"bindings", rule("", "bindings"), admitted(func(t *testing.T, w *world, b webhook.Backend) error {
		return w.kube.CoreV1().RESTClient().Post().Namespace(b.Namespace).Resource("bindings").Body(binding(b)).Do(t.Context()).Error()
	})}
	// placements are the requests by which kube-scheduler places Pods.
	placements = virtual{"placements", rule("", "pods/binding"), admitted(func(t *testing.T, w *world, b webhook.Backend) error {
		return w.kube.CoreV1().Pods(b.Namespace).Bind(t.Context(), binding(b), metav1.CreateOptions{})
	})}
)

func binding(b webhook.Backend) *corev1.Binding {
	return &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "nobody", Namespace: b.Namespace},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "nowhere"},
	}
}

// admitted makes a success of "not found": only after admission does the server
// look for the Pod.
func admitted(request func(*testing.T, *world, webhook.Backend) error) func(*testing.T, *world, webhook.Backend) error {
	return func(t *testing.T, w *world, b webhook.Backend) error {
		err := request(t, w, b)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
}

// TestDeadWebhookOnBindings: a webhook that cannot be called stops the scheduler
// only where it is called for pods/binding; neither bindings nor "*" does that.
func TestDeadWebhookOnBindings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, resource, severity string
		stops                    bool
	}{
		{"placements", "pods/binding", "critical", true},
		{"legacy", "bindings", "critical", false},
		{"wildcard", "*", "warning", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := use(t, stock)
			b := w.backend(t, "dead-"+test.name)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "waiting"}, Spec: podSpec()}
			_, err := w.kube.CoreV1().Pods(b.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
			must(t, err)
			h := hook(b, "", rule("", test.resource))
			h.ClientConfig = admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")} // nothing listens there
			w.validate(t, b.Namespace, h)
			w.watch(t).finds("virtual-resource", test.severity, identity("validating", b.Namespace, h.Name))
			inEffect := bindings.request
			if test.stops {
				inEffect = placements.request
			}
			eventually(t, func() error {
				if err := inEffect(t, w, b); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
					return fmt.Errorf("the API server does not call the webhook yet: %v", err)
				}
				return nil
			})
			place := binding(b)
			place.Name = pod.Name
			err = w.kube.CoreV1().Pods(b.Namespace).Bind(t.Context(), place, metav1.CreateOptions{})
			if refused := err != nil; refused != test.stops {
				t.Errorf("placing the Pod: %v", err)
			}
			w.unregister(t, b.Namespace)
		})
	}
}

func TestVirtualResources(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		server   string
		start    func() (*world, error)
		resource virtual
		policy   admissionv1.FailurePolicyType
		check    string
		severity string
	}{
		{"stock", stock, tokenReviews, admissionv1.Fail, "dead-rule", "info"},
		{"stock", stock, bindings, admissionv1.Fail, "virtual-resource", "critical"},
		{"stock", stock, placements, admissionv1.Fail, "virtual-resource", "critical"},
		{"older", older, tokenReviews, admissionv1.Fail, "virtual-resource", "critical"},
		{"older", older, tokenReviews, admissionv1.Ignore, "virtual-resource", "warning"},
		{"older", older, anyReviews, admissionv1.Ignore, "virtual-resource", "info"},
		{"older", older, bindings, admissionv1.Fail, "virtual-resource", "critical"},
	} {
		t.Run(fmt.Sprintf("%s/%s/%s", test.server, test.resource.name, test.policy), func(t *testing.T) {
			t.Parallel()
			w := use(t, test.start)
			b := w.backend(t, strings.ToLower("virtual-"+test.resource.name+"-"+string(test.policy)))
			path := "/allow/" + b.Namespace
			h := hook(b, path, test.resource.rule)
			h.FailurePolicy = new(test.policy)
			w.validate(t, b.Namespace, h, canary(b))
			labels := identity("validating", b.Namespace, h.Name)
			watcher := w.watch(t)
			watcher.finds(test.check, test.severity, labels)
			w.awaitCanary(t, b)
			must(t, test.resource.request(t, w, b))
			called := len(w.hooks.CallsOf(path)) > 0
			if dead := test.check == "dead-rule"; called == dead {
				t.Errorf("called: %t, but the finding is %s", called, test.check)
			}
			// An approval covers what is informational, not this.
			w.approve(t, b.Namespace, `"https://example.com/pull/1"`)
			watcher.sees("approval appears", metrics.Present(info, with(labels, metrics.Labels{"approved": "true"})))
			watcher.finds(test.check, test.severity, labels)
			w.unregister(t, b.Namespace)
			watcher.forgets(test.check, labels)
		})
	}
}

// TestFailingMatchCondition: a matchCondition that reads what no request to the
// resource has refuses every one of them, though the backend would allow it.
func TestFailingMatchCondition(t *testing.T) {
	t.Parallel()
	w := use(t, stock)
	b := w.backend(t, "failing-match-condition")
	h := hook(b, "/allow/"+b.Namespace, rule("", "configmaps"))
	h.MatchConditions = []admissionv1.MatchCondition{{Name: "only-status", Expression: `request.subResource == "status"`}}
	w.validate(t, b.Namespace, h)
	labels := identity("validating", b.Namespace, h.Name)
	watcher := w.watch(t)
	watcher.finds("failing-match-condition", "critical", labels)
	eventually(t, func() error {
		if _, err := w.createConfigMap(t, b.Namespace); err == nil || !strings.Contains(err.Error(), "no such key: subResource") {
			return fmt.Errorf("creating a ConfigMap: %v", err)
		}
		return nil
	})
	if calls := w.hooks.CallsOf("/allow/" + b.Namespace); len(calls) > 0 {
		t.Errorf("called %d times", len(calls))
	}
	w.unregister(t, b.Namespace)
	watcher.forgets("failing-match-condition", labels)
}

// canary is a second webhook of a configuration, which shows that the API
// server has taken the configuration in.
func canary(b webhook.Backend) admissionv1.ValidatingWebhook {
	h := hook(b, "/allow/canary/"+b.Namespace, rule("", "configmaps"))
	h.Name = "canary." + h.Name
	return h
}

// awaitCanary waits until the canary is called.
func (w *world) awaitCanary(t *testing.T, b webhook.Backend) {
	t.Helper()
	eventually(t, func() error {
		_, err := w.createConfigMap(t, b.Namespace)
		if err == nil && len(w.hooks.CallsOf("/allow/canary/"+b.Namespace)) == 0 {
			return fmt.Errorf("the canary was not called")
		}
		return err
	})
}
