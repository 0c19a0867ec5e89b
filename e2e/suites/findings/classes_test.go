package findings

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// virtual is a resource that is never stored, and a request for it.
type virtual struct {
	name    string
	rule    admissionv1.RuleWithOperations
	request func(*testing.T, environment, webhook.Backend) error
}

var (
	tokenReviews = virtual{"tokenreviews", testenv.Rule("authentication.k8s.io", "tokenreviews"), func(t *testing.T, w environment, _ webhook.Backend) error {
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "invalid"}}
		_, err := w.Kube.AuthenticationV1().TokenReviews().Create(t.Context(), review, metav1.CreateOptions{})
		return err
	}}
	// anyReviews covers them by a wildcard alone.
	anyReviews = virtual{"anyreviews", testenv.Rule("authentication.k8s.io", "*"), tokenReviews.request}
	bindings   = virtual{"bindings", testenv.Rule("", "bindings"), admitted(func(t *testing.T, w environment, b webhook.Backend) error {
		return w.Kube.CoreV1().RESTClient().Post().Namespace(b.Namespace).Resource("bindings").Body(binding(b)).Do(t.Context()).Error()
	})}
	// placements are the requests by which kube-scheduler places Pods.
	placements = virtual{"placements", testenv.Rule("", "pods/binding"), admitted(func(t *testing.T, w environment, b webhook.Backend) error {
		return w.Kube.CoreV1().Pods(b.Namespace).Bind(t.Context(), binding(b), metav1.CreateOptions{})
	})}
)

func binding(b webhook.Backend) *corev1.Binding {
	return &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "missing", Namespace: b.Namespace},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "nowhere"},
	}
}

// admitted makes a success of "not found": only after admission does the server
// look for the Pod.
func admitted(request func(*testing.T, environment, webhook.Backend) error) func(*testing.T, environment, webhook.Backend) error {
	return func(t *testing.T, w environment, b webhook.Backend) error {
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
			w := environment{stock.Use(t)}
			b := w.Backend(t, "dead-"+test.name)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "waiting"}, Spec: testenv.PodSpec()}
			testenv.Get(w.Kube.CoreV1().Pods(b.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
			h := testenv.Hook(b, "", testenv.Rule("", test.resource))
			h.ClientConfig = admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")} // nothing listens there
			w.Validate(t, b.Namespace, h)
			w.Scraper(t).AwaitFinding("virtual-resource", test.severity, testenv.Identity("validating", b.Namespace, h.Name))
			inEffect := bindings.request
			if test.stops {
				inEffect = placements.request
			}
			testenv.Eventually(t, func() error {
				if err := inEffect(t, w, b); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
					return fmt.Errorf("the API server does not call the webhook yet: %v", err)
				}
				return nil
			})
			place := binding(b)
			place.Name = pod.Name
			err := w.Kube.CoreV1().Pods(b.Namespace).Bind(t.Context(), place, metav1.CreateOptions{})
			if refused := err != nil; refused != test.stops {
				t.Errorf("placing the Pod: %v", err)
			}
			w.Unregister(t, b.Namespace)
		})
	}
}

func TestVirtualResources(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		server   string
		start    *testenv.Shared
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
		if test.check == "dead-rule" && !testenv.KeepsReviews.There(t) {
			continue
		}
		t.Run(fmt.Sprintf("%s/%s/%s", test.server, test.resource.name, test.policy), func(t *testing.T) {
			t.Parallel()
			w := environment{test.start.Use(t)}
			b := w.Backend(t, strings.ToLower("virtual-"+test.resource.name+"-"+string(test.policy)))
			path := "/allow/" + b.Namespace
			h := testenv.Hook(b, path, test.resource.rule)
			h.FailurePolicy = new(test.policy)
			w.Validate(t, b.Namespace, h, canary(b))
			labels := testenv.Identity("validating", b.Namespace, h.Name)
			scraper := w.Scraper(t)
			scraper.AwaitFinding(test.check, test.severity, labels)
			w.awaitCanary(t, b)
			testenv.Must(t, test.resource.request(t, w, b))
			called := len(w.Hooks.CallsOf(path)) > 0
			if dead := test.check == "dead-rule"; called == dead {
				t.Errorf("called: %t, but the finding is %s", called, test.check)
			}
			// An approval covers what is informational, not this.
			w.Kubectl(t, "annotate", "validatingwebhookconfiguration", b.Namespace, "webhook-approved.openshift.io=https://example.com/pull/1")
			scraper.Await("approval appears", metrics.Present(testenv.WebhookInfo, testenv.With(labels, metrics.Labels{"approved": "true"})))
			scraper.AwaitFinding(test.check, test.severity, labels)
			w.Unregister(t, b.Namespace)
			scraper.AwaitNoFinding(test.check, labels)
		})
	}
}

// canary is a second webhook of a configuration, which shows that the API
// server has taken the configuration in.
func canary(b webhook.Backend) admissionv1.ValidatingWebhook {
	h := testenv.Hook(b, "/allow/canary/"+b.Namespace, testenv.Rule("", "configmaps"))
	h.Name = "canary." + h.Name
	return h
}

func (w environment) awaitCanary(t *testing.T, b webhook.Backend) {
	t.Helper()
	testenv.Eventually(t, func() error {
		_, err := w.CreateConfigMap(t, b.Namespace)
		if err == nil && len(w.Hooks.CallsOf("/allow/canary/"+b.Namespace)) == 0 {
			return fmt.Errorf("the canary was not called")
		}
		return err
	})
}
