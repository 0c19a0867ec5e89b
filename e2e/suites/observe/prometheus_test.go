package observe

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// scraped are the webhooks whose calls Prometheus collects.
var scraped = []kind{
	{"p-failing", "/fail-every/1/p-failing", admissionv1.Fail, 1},
	{"p-refusing", "/deny/p-refusing", admissionv1.Fail, 1},
	{"p-open", "/fail-every/1/p-open", admissionv1.Ignore, 1},
}

// TestPrometheusHasWhatWasSent: a real Prometheus is asked.
func TestPrometheusHasWhatWasSent(t *testing.T) {
	w := environment{stock.UseAlone(t)}
	b := w.Backend(t, "observe-prometheus")
	w.register(t, b, scraped)
	stack := w.Monitor(t, monitoring.Options{TimeScale: 1})
	tr := w.sends(t, b.Namespace, scraped, 200*time.Millisecond)
	const aMinute = 65 // seconds, and a few scrapes
	testenv.EventuallyWithin(t, 3*time.Minute, func() error {
		found, err := stack.Query(t.Context(), fmt.Sprintf(`count(apiserver_admission_webhook_request_total{name=~"p-.+"} offset %ds) == %d`, aMinute, len(scraped)))
		if err == nil && len(found) == 0 {
			err = errors.New("not all webhooks are scraped for a minute")
		}
		return err
	})
	testenv.Eventually(t, func() error {
		return tr.prometheusHas(t, stack, "--observe-for=1m", "--kubeconfig="+w.Plane.Kubeconfig())
	})
}

// prometheusHas wants what was sent within the span, or since the first scrape.
func (tr *traffic) prometheusHas(t *testing.T, stack *monitoring.Stack, span, kubeconfig string) error {
	t.Helper()
	first, err := stack.Query(t.Context(), `min(min_over_time(timestamp(apiserver_admission_webhook_request_total{name=~"p-.+"})[10m:1s]))`)
	if err != nil || len(first) == 0 {
		return errors.Join(err, errors.New("nothing is scraped yet"))
	}
	result := testenv.Command(t, "audit", "-o", "json", "--prometheus-url="+stack.Prometheus, span, kubeconfig)
	var out struct {
		Observed source
		Webhooks []struct {
			Name     string
			Observed *observed
		}
	}
	if err := json.Unmarshal([]byte(result.Stdout), &out); err != nil {
		return fmt.Errorf("%w: %s%s", err, result.Stdout, result.Stderr)
	}
	if len(out.Observed.Servers) != 1 || out.Observed.Scraped != 1 {
		return fmt.Errorf("observed by %+v: %s", out.Observed, result.Stderr)
	}
	from, to := out.Observed.Servers[0].From, out.Observed.Servers[0].To
	if began := time.UnixMilli(int64(float64(first[0].Value) * 1000)); began.After(from) {
		from = began
	}
	seen := 0
	for _, hook := range out.Webhooks {
		for _, k := range scraped {
			if k.webhook() != hook.Name || hook.Observed == nil {
				continue
			}
			seen++
			if sent, o := tr.countBetween(k.name, from, to), *hook.Observed; !near(o.Calls, sent) || !near(o.Failing+o.Refused, 1) {
				return fmt.Errorf("%s: %+v with %s, %g were sent", k.name, o, span, sent)
			}
		}
	}
	if seen != len(scraped) {
		return fmt.Errorf("%d webhooks are observed, want %d", seen, len(scraped))
	}
	return nil
}
