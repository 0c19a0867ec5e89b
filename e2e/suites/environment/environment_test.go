package environment

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

func TestWebhookIsCalledThroughItsService(t *testing.T) {
	t.Parallel()
	w := stock.Use(t)
	b := w.Backend(t, "harness-allow")
	w.Validate(t, "harness-allow", testenv.Hook(b, "/allow/harness", testenv.Rule("", "configmaps")))
	testenv.Eventually(t, func() error {
		if _, err := w.CreateConfigMap(t, b.Namespace); err != nil {
			return err
		}
		if len(w.Hooks.CallsOf("/allow/harness")) == 0 {
			return fmt.Errorf("the webhook was not called")
		}
		return nil
	})
	call := w.Hooks.CallsOf("/allow/harness")[0]
	if call.Operation != "CREATE" || call.Resource != "configmaps" || call.Namespace != b.Namespace || call.UID == "" {
		t.Errorf("recorded %+v", call)
	}
}

func TestMutatingWebhookPatches(t *testing.T) {
	t.Parallel()
	w := stock.Use(t)
	b := w.Backend(t, "harness-patch")
	w.Mutate(t, "harness-patch", testenv.Mutating(testenv.Hook(b, "/patch", testenv.Rule("", "configmaps"))))
	testenv.Eventually(t, func() error {
		made, err := w.CreateConfigMap(t, b.Namespace)
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
				testenv.Must(t, b.DeleteService(t.Context()))
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
				testenv.Must(t, b.Unready(t.Context()))
			},
			error:   `no endpoints available for service "hook"`,
			counted: called,
		},
		{
			name: "endpoints missing",
			breaks: func(t *testing.T, b webhook.Backend, _ *admissionv1.ValidatingWebhook) {
				testenv.Must(t, b.DeleteEndpoints(t.Context()))
			},
			error:   `no endpoints available for service "hook"`,
			counted: called,
		},
	}
)

func TestFailuresAreWhatTheAPIServerMakesOfThem(t *testing.T) {
	t.Parallel()
	w := stock.Use(t)
	for i, f := range failures {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			b := w.Backend(t, fmt.Sprintf("harness-fail-%d", i))
			h := testenv.Hook(b, f.path, testenv.Rule("", "configmaps"))
			if f.breaks != nil {
				f.breaks(t, b, &h)
			}
			w.Validate(t, b.Namespace, h)
			testenv.Eventually(t, func() error { return w.Refused(t, b.Namespace, f.error) })
			want := metrics.Labels{"name": h.Name, "type": "validating", "operation": "CREATE"}
			maps.Copy(want, f.counted)
			testenv.Must(t, metrics.Present("apiserver_admission_webhook_rejection_count", want)(w.APIServerMetrics(t, "apiserver_admission_webhook_")))
		})
	}
}

func TestFailurePolicyIgnoreFailsOpen(t *testing.T) {
	t.Parallel()
	w := stock.Use(t)
	b := w.Backend(t, "harness-ignore")
	testenv.Must(t, b.DeleteService(t.Context()))
	h := testenv.Hook(b, "/", testenv.Rule("", "configmaps"))
	h.FailurePolicy = new(admissionv1.Ignore)
	w.Validate(t, b.Namespace, h)
	testenv.Eventually(t, func() error {
		if _, err := w.CreateConfigMap(t, b.Namespace); err != nil {
			return err
		}
		want := metrics.Labels{"name": h.Name, "type": "validating"}
		return metrics.Present("apiserver_admission_webhook_fail_open_count", want)(w.APIServerMetrics(t, "apiserver_admission_webhook_"))
	})
}

func TestServerFailsAShareOfTheCalls(t *testing.T) {
	t.Parallel()
	w := stock.Use(t)
	b := w.Backend(t, "harness-share")
	w.Validate(t, b.Namespace, testenv.Hook(b, "/share", testenv.Rule("", "configmaps")))
	testenv.Eventually(t, func() error {
		_, err := w.CreateConfigMap(t, b.Namespace)
		if err == nil && len(w.Hooks.CallsOf("/share")) == 0 {
			return fmt.Errorf("the webhook was not called")
		}
		return err
	})
	testenv.Eventually(t, func() error { // a controller's one call must not come between ours
		_, err := w.Kube.CoreV1().ConfigMaps(b.Namespace).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
	w.Hooks.Behave("/share", webhook.Behaviour{FailEvery: 5})
	failed := 0
	for range 20 {
		if _, err := w.CreateConfigMap(t, b.Namespace); err != nil {
			failed++
		}
	}
	if failed != 4 {
		t.Errorf("%d of 20 calls failed, want every fifth", failed)
	}
}

func TestServerIsGoneAndComesBack(t *testing.T) {
	t.Parallel()
	w := stock.Use(t)
	server, err := webhook.Start()
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, server.Close()) })
	b := webhook.Backend{Client: w.Kube, Namespace: w.Backend(t, "harness-gone").Namespace, Name: "own", Server: server}
	testenv.Must(t, b.Create(t.Context()))
	w.Validate(t, b.Namespace, testenv.Hook(b, "/deny", testenv.Rule("", "configmaps")))
	testenv.Eventually(t, func() error { return w.Refused(t, b.Namespace, "denied the request") })
	testenv.Must(t, server.Close())
	testenv.Eventually(t, func() error { return w.Refused(t, b.Namespace, "connection refused") })
	testenv.Must(t, server.Open())
	testenv.Eventually(t, func() error { return w.Refused(t, b.Namespace, "denied the request") })
}

// TestReviewsAreSentToWebhooksByOlderServersOnly holds that the second environment
// differs from the first as intended.
func TestReviewsAreSentToWebhooksByOlderServersOnly(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		server *testenv.Shared
		called bool
	}{"stock": {stock, false}, "older": {older, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := test.server.Use(t)
			b := w.Backend(t, "harness-reviews")
			w.Validate(t, b.Namespace,
				testenv.Hook(b, "/allow/reviews", testenv.Rule("authentication.k8s.io", "tokenreviews"), testenv.Rule("", "configmaps")))
			testenv.Eventually(t, func() error {
				_, err := w.CreateConfigMap(t, b.Namespace)
				if err == nil && len(w.Hooks.CallsOf("/allow/reviews")) == 0 {
					return fmt.Errorf("the webhook was not called")
				}
				return err
			})
			w.Hooks.ForgetCallsOf("/allow/reviews")
			review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "invalid"}}
			_, err := w.Kube.AuthenticationV1().TokenReviews().Create(t.Context(), review, metav1.CreateOptions{})
			testenv.Must(t, err)
			calls := slices.DeleteFunc(w.Hooks.CallsOf("/allow/reviews"), func(c webhook.Call) bool { return c.Resource != "tokenreviews" })
			if called := len(calls) > 0; called != test.called {
				t.Errorf("called: %t, want %t", called, test.called)
			}
		})
	}
}

func TestConversionWorksAndBreaks(t *testing.T) {
	t.Parallel()
	w := stock.Use(t)
	b := w.Backend(t, "harness-convert")
	const group = "harness.example.com"
	w.Widgets(t, group, b.Conversion("/convert/harness"))
	testenv.Eventually(t, func() error { return testenv.IgnoreExisting(w.CreateWidget(t, group, "one")) })
	read := func() error {
		_, err := w.WidgetClient(group, "v2").Get(t.Context(), "one", metav1.GetOptions{})
		return err
	}
	testenv.Eventually(t, read)
	if len(w.Hooks.CallsOf("/convert/harness")) == 0 {
		t.Error("the conversion webhook was not called")
	}
	testenv.Must(t, b.DeleteEndpoints(t.Context()))
	testenv.Eventually(t, func() error {
		if err := read(); err == nil || !strings.Contains(err.Error(), "conversion webhook for") {
			return fmt.Errorf("want a conversion error, have %v", err)
		}
		return nil
	})
	testenv.Must(t, b.CreateEndpoints(t.Context()))
	testenv.Eventually(t, read)
}
