package alerts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/metrics"
)

// BenchmarkEvaluation reports how long Prometheus takes for each group of
// alerts with a thousand webhooks that are called. It takes a minute, and tells
// something on an idle machine only.
func BenchmarkEvaluation(b *testing.B) {
	const webhooks, each = 1000, 100
	w := newWorld(b, cluster.Options{})
	s := newSite(b, w, "many")
	for n := range webhooks / each {
		must(b, s.register(b.Context(), s.several(n, each)))
	}
	auditors, _ := w.auditors(b)
	stack := w.watch(b, Targets{Auditors: auditors}, "")
	for b.Loop() {
		for range 2 {
			_ = s.createConfigMap(b.Context(), 0) // calls them all
		}
		eventually(b, func(ctx context.Context) error { return stack.knows(ctx, webhooks) })
	}
	response, err := http.Get(stack.Prometheus + "/metrics")
	must(b, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(b, err)
	scrape, err := metrics.Parse(strings.NewReader(string(text)))
	must(b, err)
	total := 0.0
	for _, series := range scrape.Select("prometheus_rule_group_last_duration_seconds", nil) {
		_, group, _ := strings.Cut(series.Labels["rule_group"], ";")
		b.ReportMetric(1000*series.Value, "ms/"+group)
		total += series.Value
	}
	b.ReportMetric(1000*total, "ms/all")
}

// several is a configuration of so many webhooks on ConfigMaps.
func (s site) several(number, webhooks int) *admissionv1.ValidatingWebhookConfiguration {
	c := s.configuration(configMaps)
	c.Name = fmt.Sprintf("%s-%d", s.name, number)
	one := c.Webhooks[0]
	c.Webhooks = nil
	for i := range webhooks {
		one.Name = fmt.Sprintf("w%d.%s.alerts.example.com", i, c.Name)
		c.Webhooks = append(c.Webhooks, one)
	}
	return c
}

// knows wants a while of series about so many webhooks.
func (s *Stack) knows(ctx context.Context, webhooks int) error {
	found, err := s.Query(ctx, fmt.Sprintf(`
		count(count_over_time(webhook_auditor_webhook_latency_threshold_seconds[30s]) > 20) >= 2 * %[1]d
		and count(count by (name) (count_over_time(apiserver_admission_webhook_request_total[30s]) > 20)) >= %[1]d`, webhooks))
	if err == nil && len(found) == 0 {
		return errors.New("not all webhooks are known and called")
	}
	return err
}
