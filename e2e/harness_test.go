package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/webhook"
)

// The tests in this file hold what the others rest on: that the harness is a
// control plane like any other, whose webhooks work and break as they do in a
// cluster.

func TestWebhookIsCalledThroughItsService(t *testing.T) {
	t.Parallel()
	w := use(t, stock)
	b := w.backend(t, "harness-allow")
	w.validate(t, "harness-allow", hook(b, "/allow/harness", rule("", "configmaps")))
	eventually(t, func() error {
		if _, err := w.createConfigMap(t, b.Namespace); err != nil {
			return err
		}
		if len(w.hooks.CallsOf("/allow/harness")) == 0 {
			return fmt.Errorf("the webhook was not called")
		}
		return nil
	})
	call := w.hooks.CallsOf("/allow/harness")[0]
	if call.Operation != "CREATE" || call.Resource != "configmaps" || call.Namespace != b.Namespace || call.UID == "" {
		t.Errorf("recorded %+v", call)
	}
}

func TestMutatingWebhookPatches(t *testing.T) {
	t.Parallel()
	w := use(t, stock)
	b := w.backend(t, "harness-patch")
	w.mutate(t, "harness-patch", mutating(hook(b, "/patch", rule("", "configmaps"))))
	eventually(t, func() error {
		made, err := w.createConfigMap(t, b.Namespace)
		if err == nil && made.Annotations["e2e.example.com/patched"] != "true" {
			return fmt.Errorf("not patched: %v", made.Annotations)
		}
		return err
	})
}

// failure is a way for a webhook to stand in the way of a request, the error
// the client sees and how the API server counts it.
type failure struct {
	name    string
	path    string
	breaks  func(t *testing.T, b webhook.Backend, h *admissionv1.ValidatingWebhook)
	error   string
	counted metrics.Labels
}

var (
	called   = metrics.Labels{"error_type": "calling_webhook_error", "rejection_code": "503"}
	failures = []failure{
		{
			name:    "denial",
			path:    "/deny",
			error:   "denied the request: denied by the test webhook",
			counted: metrics.Labels{"error_type": "no_error", "rejection_code": "403"},
		},
		{
			name:    "every call fails",
			path:    "/fail-every/1",
			error:   "failed calling webhook",
			counted: metrics.Labels{"error_type": "calling_webhook_error", "rejection_code": "500"},
		},
		{name: "garbage", path: "/garbage", error: "failed calling webhook", counted: called},
		{
			name: "slower than its timeout",
			path: "/delay/5s",
			breaks: func(_ *testing.T, _ webhook.Backend, h *admissionv1.ValidatingWebhook) {
				h.TimeoutSeconds = new(int32(1))
			},
			error:   "context deadline exceeded",
			counted: called,
		},
		{
			name: "service missing",
			breaks: func(t *testing.T, b webhook.Backend, _ *admissionv1.ValidatingWebhook) {
				must(t, b.DeleteService(t.Context()))
			},
			error:   `service "hook" not found`,
			counted: called,
		},
		{
			name: "port missing",
			breaks: func(_ *testing.T, _ webhook.Backend, h *admissionv1.ValidatingWebhook) {
				h.ClientConfig.Service.Port = new(int32(444))
			},
			error:   `no service port 444 found for service "hook"`,
			counted: called,
		},
		{
			name: "endpoints unready",
			breaks: func(t *testing.T, b webhook.Backend, _ *admissionv1.ValidatingWebhook) {
				must(t, b.Unready(t.Context()))
			},
			error:   `no endpoints available for service "hook"`,
			counted: called,
		},
		{
			name: "endpoints missing",
			breaks: func(t *testing.T, b webhook.Backend, _ *admissionv1.ValidatingWebhook) {
				must(t, b.DeleteEndpoints(t.Context()))
			},
			error:   `no endpoints available for service "hook"`,
			counted: called,
		},
	}
)

func TestFailuresAreWhatTheAPIServerMakesOfThem(t *testing.T) {
	t.Parallel()
	w := use(t, stock)
	for i, f := range failures {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			b := w.backend(t, fmt.Sprintf("harness-fail-%d", i))
			h := hook(b, f.path, rule("", "configmaps"))
			if f.breaks != nil {
				f.breaks(t, b, &h)
			}
			w.validate(t, b.Namespace, h)
			eventually(t, func() error { return w.refused(t, b.Namespace, f.error) })
			want := metrics.Labels{"name": h.Name, "type": "validating", "operation": "CREATE"}
			maps.Copy(want, f.counted)
			must(t, metrics.Present("apiserver_admission_webhook_rejection_count", want)(w.apiServerMetrics(t, "apiserver_admission_webhook_")))
		})
	}
}

// refused wants the creation of a ConfigMap to fail with the given text.
func (w *world) refused(t *testing.T, namespace, text string) error {
	t.Helper()
	_, err := w.createConfigMap(t, namespace)
	if err == nil || !strings.Contains(err.Error(), text) {
		return fmt.Errorf("want an error with %q, have %v", text, err)
	}
	return nil
}

func TestFailurePolicyIgnoreFailsOpen(t *testing.T) {
	t.Parallel()
	w := use(t, stock)
	b := w.backend(t, "harness-ignore")
	must(t, b.DeleteService(t.Context()))
	h := hook(b, "/", rule("", "configmaps"))
	h.FailurePolicy = new(admissionv1.Ignore)
	w.validate(t, b.Namespace, h)
	eventually(t, func() error {
		if _, err := w.createConfigMap(t, b.Namespace); err != nil {
			return err
		}
		want := metrics.Labels{"name": h.Name, "type": "validating"}
		return metrics.Present("apiserver_admission_webhook_fail_open_count", want)(w.apiServerMetrics(t, "apiserver_admission_webhook_"))
	})
}

func TestServerFailsAShareOfTheCalls(t *testing.T) {
	t.Parallel()
	w := use(t, stock)
	b := w.backend(t, "harness-share")
	w.validate(t, b.Namespace, hook(b, "/share", rule("", "configmaps")))
	eventually(t, func() error {
		_, err := w.createConfigMap(t, b.Namespace)
		if err == nil && len(w.hooks.CallsOf("/share")) == 0 {
			return fmt.Errorf("the webhook was not called")
		}
		return err
	})
	eventually(t, func() error { // a controller's one call must not come between ours
		_, err := w.kube.CoreV1().ConfigMaps(b.Namespace).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
	w.hooks.Behave("/share", webhook.Behaviour{FailEvery: 5})
	failed := 0
	for range 20 {
		if _, err := w.createConfigMap(t, b.Namespace); err != nil {
			failed++
		}
	}
	if failed != 4 {
		t.Errorf("%d of 20 calls failed, want every fifth", failed)
	}
}

func TestServerIsGoneAndComesBack(t *testing.T) {
	t.Parallel()
	w := use(t, stock)
	server, err := webhook.Start()
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	b := webhook.Backend{Client: w.kube, Namespace: w.backend(t, "harness-gone").Namespace, Name: "own", Server: server}
	must(t, b.Create(t.Context()))
	w.validate(t, b.Namespace, hook(b, "/deny", rule("", "configmaps")))
	eventually(t, func() error { return w.refused(t, b.Namespace, "denied the request") })
	must(t, server.Close())
	eventually(t, func() error { return w.refused(t, b.Namespace, "connection refused") })
	must(t, server.Open())
	eventually(t, func() error { return w.refused(t, b.Namespace, "denied the request") })
}

// TestReviewsAreSentToWebhooksByOlderServersOnly holds that the second world
// differs from the first in what it is there for.
func TestReviewsAreSentToWebhooksByOlderServersOnly(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		start  func() (*world, error)
		called bool
	}{"stock": {stock, false}, "older": {older, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := use(t, test.start)
			b := w.backend(t, "harness-reviews")
			w.validate(t, b.Namespace,
				hook(b, "/allow/reviews", rule("authentication.k8s.io", "tokenreviews"), rule("", "configmaps")))
			eventually(t, func() error {
				_, err := w.createConfigMap(t, b.Namespace)
				if err == nil && len(w.hooks.CallsOf("/allow/reviews")) == 0 {
					return fmt.Errorf("the webhook was not called")
				}
				return err
			})
			w.hooks.ForgetCallsOf("/allow/reviews")
			review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "of nobody"}}
			_, err := w.kube.AuthenticationV1().TokenReviews().Create(t.Context(), review, metav1.CreateOptions{})
			must(t, err)
			calls := slices.DeleteFunc(w.hooks.CallsOf("/allow/reviews"), func(c webhook.Call) bool { return c.Resource != "tokenreviews" })
			if called := len(calls) > 0; called != test.called {
				t.Errorf("called: %t, want %t", called, test.called)
			}
		})
	}
}

func TestConversionWorksAndBreaks(t *testing.T) {
	t.Parallel()
	w := use(t, stock)
	b := w.backend(t, "harness-convert")
	const group = "harness.example.com"
	w.widgets(t, group, b.Conversion("/convert/harness"))
	eventually(t, func() error { return ignoreExisting(w.createWidget(t, group, "one")) })
	read := func() error {
		_, err := w.widgetClient(group, "v2").Get(t.Context(), "one", metav1.GetOptions{})
		return err
	}
	eventually(t, read)
	if len(w.hooks.CallsOf("/convert/harness")) == 0 {
		t.Error("the conversion webhook was not called")
	}
	must(t, b.DeleteEndpoints(t.Context()))
	eventually(t, func() error {
		if err := read(); err == nil || !strings.Contains(err.Error(), "conversion webhook for") {
			return fmt.Errorf("want a conversion error, have %v", err)
		}
		return nil
	})
	must(t, b.CreateEndpoints(t.Context()))
	eventually(t, read)
}

func ignoreExisting(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
