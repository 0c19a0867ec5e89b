package observe

import (
	"errors"
	"fmt"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// signalled are the webhooks that alerts on the auditor's series are about.
var signalled = []kind{
	{"s-failing", "/fail-every/1/s-failing", admissionv1.Fail, 1},
	{"s-slow", "/delay/1200ms/s-slow", admissionv1.Fail, 4},
	{"s-sound", "/allow/s-sound", admissionv1.Fail, 1},
}

// signalScale makes the six seconds between two observations of one second each a minute,
// as they are by default.
const signalScale = 0.1

// TestAlertsWithoutAnAPIServer: a Prometheus that drops all series of the API server has
// those of the auditor, and raises the same alerts.
func TestAlertsWithoutAnAPIServer(t *testing.T) {
	w := environment{stock.UseAlone(t)}
	b := w.Backend(t, "observe-signals")
	w.register(t, b, signalled)
	auditor := w.Run(t, "--observe=apiserver", "--observe-for=1s", "--web.observed-metrics")
	stack := w.Monitor(t, monitoring.Options{
		Rules:     []string{"--signals=auditor"},
		TimeScale: signalScale,
		Targets:   monitoring.Targets{Auditors: []string{auditor.URL}, Without: "apiserver_.+"},
	})
	w.sends(t, b.Namespace, signalled, 200*time.Millisecond)
	want := map[string]string{"WebhookCallsFailing": "s-failing", "WebhookSlow": "s-slow"}
	testenv.EventuallyWithin(t, 5*time.Minute, func() error {
		for alert, name := range want {
			firing, err := stack.Query(t.Context(), fmt.Sprintf(`ALERTS{alertname=%q, name="%s.observe.example.com", alertstate="firing"}`, alert, name))
			if err != nil || len(firing) == 0 {
				return errors.Join(err, fmt.Errorf("%s does not fire for %s", alert, name))
			}
		}
		return nil
	})
	for what, query := range map[string]string{
		"series of the API server":                                  `{__name__=~"apiserver_.+"}`,
		"alerts on the webhook that is sound, or on missing series": `ALERTS{name="s-sound.observe.example.com"} or ALERTS{alertname="WebhookInputMetricsMissing"}`,
		"auditors that read no API server":                          `webhook_auditor_observed_apiservers != 1`,
	} {
		found, err := stack.Query(t.Context(), query)
		if testenv.Must(t, err); len(found) > 0 {
			t.Errorf("%s: %v", what, found)
		}
	}
}
