package rules

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkGroups evaluates each group once over a thousand webhooks with
// seven hours behind them, seen by three API servers and two auditors.
func BenchmarkGroups(b *testing.B) {
	const ticks = 20
	var series []string
	for i := range 1000 {
		series = append(series, webhookSeries(fmt.Sprintf("w%d.example.com", i), ticks)...)
	}
	p := play(b, Options{}, series...)
	for _, g := range p.groups {
		b.Run(g.Name(), func(b *testing.B) {
			for b.Loop() {
				g.Eval(b.Context(), time.Unix(0, 0).Add(ticks*tick))
			}
		})
	}
}

// webhookSeries are all series of one webhook that the alerts read.
func webhookSeries(name string, ticks int) []string {
	var out []string
	add := func(format string, args ...any) {
		out = append(out, fmt.Sprintf(format, args...)+fmt.Sprintf("x%d", ticks))
	}
	webhook := fmt.Sprintf(`name=%q,type="validating"`, name)
	for _, instance := range []string{"a"} {
		call := fmt.Sprintf(`instance=%q,%s,operation="CREATE"`, instance, webhook)
		add(`apiserver_admission_webhook_request_total{%s,code="200",rejected="false"} 0+10`, call)
		add(`apiserver_admission_webhook_request_total{%s,code="403",rejected="true"} 0+1`, call)
		add(`apiserver_admission_webhook_rejection_count{%s,error_type="no_error",rejection_code="403"} 0+1`, call)
		add(`apiserver_admission_webhook_admission_duration_seconds_count{%s,rejected="false"} 0+11`, call)
		for _, le := range admissionEdges {
			add(`apiserver_admission_webhook_admission_duration_seconds_bucket{%s,rejected="false",le=%q} 0+11`, call, le)
		}
	}
	for _, pod := range []string{"one", "two"} {
		known := fmt.Sprintf(`pod=%q,%s,configuration="c",service_namespace="n"`, pod, webhook)
		add(`webhook_auditor_webhook_info{%s,failure_policy="Fail"} 1`, known)
		add(`webhook_auditor_webhook_reach{%s,class="critical",group="",resource="pods"} 1`, known)
		add(`webhook_auditor_webhook_latency_threshold_seconds{%s} 0.5`, known)
		add(`webhook_auditor_webhook_failure_impact{%s,impact="closed"} 1`, known)
	}
	return out
}
