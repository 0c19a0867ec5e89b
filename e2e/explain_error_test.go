package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/webhook"
)

// mishap is something that makes an API server complain of a webhook, and the
// cause that "explain --error" must make out of the words it uses.
type mishap struct {
	name, cause string
	// related is the check whose finding says the same, if any.
	related string
	breaks  func(t *testing.T, b webhook.Backend, h *admissionv1.ValidatingWebhook)
}

var mishaps = []mishap{
	{name: "denied", cause: "denied", breaks: at("/deny")},
	{name: "failing", cause: "server-error", breaks: at("/fail-every/1")},
	{name: "garbage", cause: "invalid-answer", breaks: at("/garbage")},
	{name: "slow", cause: "timeout", breaks: func(t *testing.T, b webhook.Backend, h *admissionv1.ValidatingWebhook) {
		at("/delay/5s")(t, b, h)
		h.TimeoutSeconds = new(int32(1))
	}},
	{name: "no-service", cause: "service-missing", related: "service-missing", breaks: func(t *testing.T, b webhook.Backend, _ *admissionv1.ValidatingWebhook) {
		must(t, b.DeleteService(t.Context()))
	}},
	{name: "no-port", cause: "service-port-missing", related: "service-port-missing", breaks: func(_ *testing.T, _ webhook.Backend, h *admissionv1.ValidatingWebhook) {
		h.ClientConfig.Service.Port = new(int32(444))
	}},
	{name: "no-endpoints", cause: "no-ready-endpoints", related: "no-ready-endpoints", breaks: func(t *testing.T, b webhook.Backend, _ *admissionv1.ValidatingWebhook) {
		must(t, b.Unready(t.Context()))
	}},
	{name: "refused", cause: "connection-refused", breaks: func(t *testing.T, b webhook.Backend, _ *admissionv1.ValidatingWebhook) {
		pitfall{}.listen(t, b)
	}},
	{name: "unknown-ca", cause: "unknown-authority", breaks: bundled(nil)},
	{name: "placeholder", cause: "ca-bundle-invalid", breaks: bundled([]byte("\n"))},
	{name: "no-pem", cause: "ca-bundle-invalid", related: "ca-bundle-invalid", breaks: bundled([]byte("nonsense"))},
	{name: "condition", cause: "match-condition", breaks: func(_ *testing.T, _ webhook.Backend, h *admissionv1.ValidatingWebhook) {
		h.MatchConditions = []admissionv1.MatchCondition{{Name: "lacking", Expression: "object.data.lacking == 'x' &&\n  object.metadata.name != 'y'"}}
	}},
}

func at(path string) func(*testing.T, webhook.Backend, *admissionv1.ValidatingWebhook) {
	return func(_ *testing.T, _ webhook.Backend, h *admissionv1.ValidatingWebhook) {
		h.ClientConfig.Service.Path = &path
	}
}

func bundled(bundle []byte) func(*testing.T, webhook.Backend, *admissionv1.ValidatingWebhook) {
	return func(_ *testing.T, _ webhook.Backend, h *admissionv1.ValidatingWebhook) {
		h.ClientConfig.CABundle = bundle
	}
}

// TestExplainError: what the API server really says is understood, and found
// in the cluster.
func TestExplainError(t *testing.T) {
	w := use(t, stock)
	for _, m := range mishaps {
		t.Run(m.name, func(t *testing.T) {
			b := w.backend(t, "pasted-"+m.name)
			h := hook(b, "/allow/pasted", rule("", "configmaps"))
			m.breaks(t, b, &h)
			w.validate(t, b.Namespace, h)
			var said error
			eventually(t, func() error {
				if _, said = w.createConfigMap(t, b.Namespace); said == nil {
					return errors.New("the request went through")
				}
				return nil
			})
			got := w.diagnose(t, said.Error())
			if got.Cause != m.cause || len(got.Webhooks) != 1 || got.Webhooks[0].Configuration != b.Namespace {
				t.Errorf("%v\nis explained as %+v, want %s of %s", said, got, m.cause, b.Namespace)
			}
			if m.related != "" && (len(got.Findings) == 0 || got.Findings[0].Check != m.related) {
				t.Errorf("findings %+v, want %s first", got.Findings, m.related)
			}
		})
	}
}

func TestExplainErrorOfConversions(t *testing.T) {
	w := use(t, stock)
	b := w.backend(t, "pasted-convert")
	const group = "pasted.example.com"
	name := w.widgets(t, group, b.Conversion("/convert/pasted"))
	eventually(t, func() error { return ignoreExisting(w.createWidget(t, group, "one")) })
	must(t, b.DeleteEndpoints(t.Context()))
	var said error
	eventually(t, func() error {
		if _, said = w.widgetClient(group, "v2").Get(t.Context(), "one", metav1.GetOptions{}); said == nil {
			return errors.New("it was converted")
		}
		return nil
	})
	got := w.diagnose(t, said.Error())
	if got.Cause != "no-ready-endpoints" || len(got.Webhooks) != 1 || got.Webhooks[0].Configuration != name {
		t.Errorf("%v\nis explained as %+v, want the conversion of %s", said, got, name)
	}
}

// diagnosed is what is read of "explain --error -o json".
type diagnosed struct {
	Cause    string
	Webhooks []struct{ Configuration string }
	Findings []struct{ Check string }
}

func (w *world) diagnose(t *testing.T, text string) diagnosed {
	t.Helper()
	path, err := binary()
	must(t, err)
	result, err := auditor.Command(t.Context(), path, "explain", "--kubeconfig="+w.plane.Kubeconfig(), "--aggregator-routing=true", "-o=json", "--error="+text)
	must(t, err)
	var out struct{ Errors []diagnosed }
	if err := json.Unmarshal([]byte(result.Stdout), &out); err != nil || len(out.Errors) != 1 {
		t.Fatal(fmt.Errorf("%s: exit code %d: %s%s: %w", text, result.Code, result.Stdout, result.Stderr, err))
	}
	return out.Errors[0]
}
