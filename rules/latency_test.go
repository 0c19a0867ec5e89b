package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
)

// admissionEdges and conversionEdges are the API server's own.
var (
	admissionEdges  = []string{"0.005", "0.025", "0.1", "0.5", "1", "2.5", "10", "25", "+Inf"}
	conversionEdges = []string{"0.001", "0.002", "0.004", "0.008", "0.016", "0.032", "0.064", "0.128", "0.256", "0.512", "1.024", "2.048", "4.096", "8.192", "16.384", "+Inf"}
)

// histogram are the series of a histogram that counts calls each tick, slow of
// them beyond the edge and all others just up to it.
func histogram(name, labels, edge string, edges []string, calls, slow float64) []string {
	const ticks = 60
	at := slices.Index(edges, edge)
	out := []string{fmt.Sprintf(`%s_count{%s} 0+%gx%d`, name, labels, calls, ticks)}
	for i, le := range edges {
		count := 0.0
		if i >= at {
			count = calls - slow
		}
		if i > at {
			count = calls
		}
		out = append(out, fmt.Sprintf(`%s_bucket{%s,le=%q} 0+%gx%d`, name, labels, le, count, ticks))
	}
	return out
}

func admissionHistogram(name, edge string, calls, slow float64) []string {
	labels := fmt.Sprintf(`instance="a",name=%q,type="validating",operation="CREATE",rejected="false"`, name)
	return histogram("apiserver_admission_webhook_admission_duration_seconds", labels, edge, admissionEdges, calls, slow)
}

func limit(name, kind string, seconds float64) string {
	return fmt.Sprintf(`webhook_auditor_webhook_latency_threshold_seconds{pod="one",name=%q,type=%q,service_namespace="n"} %gx60`, name, kind, seconds)
}

// TestEdges looks at both sides of each edge that a threshold may be: exactly
// one call in a hundred beyond it is not slow, hardly more is.
func TestEdges(t *testing.T) {
	t.Parallel()
	for edge, seconds := range map[string]float64{"0.1": 0.1, "0.5": 0.5, "1": 1, "2.5": 2.5, "10": 10} {
		for _, slow := range []float64{100, 102} {
			t.Run(fmt.Sprintf("admission, %g in 10000 over %s", slow, edge), func(t *testing.T) {
				series := append(admissionHistogram("w", edge, 10000, slow), limit("w", "validating", seconds))
				expect(t, "WebhookSlow", slow > 100, series)
			})
		}
	}
	for edge, seconds := range map[string]float64{"0.512": 0.5, "1.024": 1} {
		for _, slow := range []float64{100, 102} {
			t.Run(fmt.Sprintf("conversion, %g in 10000 over %s", slow, edge), func(t *testing.T) {
				series := append(histogram(promql.ConversionSeconds, `instance="a",crd_name="c",from_version="v1",to_version="v2",succeeded="true"`, edge, conversionEdges, 10000, slow),
					limit("c", "conversion", seconds))
				expect(t, "WebhookConversionSlow", slow > 100, series)
			})
		}
	}
}

// expect holds that the alert fires, or that it does not.
func expect(t *testing.T, alert string, fires bool, series []string) {
	t.Helper()
	p := evaluateFile(t, fileOf(t, alert), tick, series)
	p.tick = minute
	if got := p.first(alert, 30*time.Minute); (got >= 0) != fires {
		t.Errorf("%s first fires after %s, want it to fire: %t", alert, got, fires)
	}
}

// TestUnevenHistograms has one histogram in many pieces.
func TestUnevenHistograms(t *testing.T) {
	t.Parallel()
	bucket := func(instance, operation, le string, perTick float64) string {
		return fmt.Sprintf(`apiserver_admission_webhook_admission_duration_seconds_bucket{instance=%q,name="w",type="validating",operation=%q,rejected="false",le=%q} 0+%gx60`, instance, operation, le, perTick)
	}
	count := func(instance, operation string, perTick float64) string {
		return fmt.Sprintf(`apiserver_admission_webhook_admission_duration_seconds_count{instance=%q,name="w",type="validating",operation=%q,rejected="false"} 0+%gx60`, instance, operation, perTick)
	}
	tests := []struct {
		name   string
		fires  bool
		series []string
	}{
		{"le 1 of one API server and le 1.0 of another, all quick", false, []string{
			bucket("a", "CREATE", "1", 10), bucket("a", "CREATE", "+Inf", 10), count("a", "CREATE", 10),
			bucket("b", "CREATE", "1.0", 10), bucket("b", "CREATE", "+Inf", 10), count("b", "CREATE", 10),
		}},
		{"le 1 of one API server and le 1.0 of another, the second slow", true, []string{
			bucket("a", "CREATE", "1", 10), bucket("a", "CREATE", "2.5", 10), bucket("a", "CREATE", "+Inf", 10), count("a", "CREATE", 10),
			bucket("b", "CREATE", "1.0", 5), bucket("b", "CREATE", "2.5", 10), bucket("b", "CREATE", "+Inf", 10), count("b", "CREATE", 10),
		}},
		{"one slow operation of two", true, []string{
			bucket("a", "CREATE", "1", 10), bucket("a", "CREATE", "2.5", 10), bucket("a", "CREATE", "+Inf", 10), count("a", "CREATE", 10),
			bucket("a", "UPDATE", "1", 5), bucket("a", "UPDATE", "2.5", 10), bucket("a", "UPDATE", "+Inf", 10), count("a", "UPDATE", 10),
		}},
		{"idle", false, []string{bucket("a", "CREATE", "1", 0), bucket("a", "CREATE", "+Inf", 0), count("a", "CREATE", 0)}},
		{"four slow calls in five minutes", false, []string{bucket("a", "CREATE", "1", 0), bucket("a", "CREATE", "+Inf", 0.4), count("a", "CREATE", 0.4)}},
		{"all beyond the last edge", true, []string{bucket("a", "CREATE", "1", 0), bucket("a", "CREATE", "25", 0), bucket("a", "CREATE", "+Inf", 10), count("a", "CREATE", 10)}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect(t, "WebhookSlow", test.fires, append(test.series, limit("w", "validating", 1)))
		})
	}
}

// TestWithoutThreshold shows that a webhook that no auditor knows is slow from a second
// on: a missing auditor does not blind the alert.
func TestWithoutThreshold(t *testing.T) {
	expect(t, "WebhookSlow", false, admissionHistogram("w", "0.5", 100, 50))
	expect(t, "WebhookSlow", true, admissionHistogram("w", "1", 100, 50))
}

// TestVital shows that it pages where the webhook reaches what the cluster's
// stability depends on, whatever its failurePolicy: the wait is the outage.
func TestVital(t *testing.T) {
	t.Parallel()
	registration := func(policy, class, resource string) []string {
		const webhook = `pod="one",type="validating",name="w",configuration="c"`
		series := []string{fmt.Sprintf(`webhook_auditor_webhook_info{%s,failure_policy=%q} 1x60`, webhook, policy)}
		if resource != "" {
			series = append(series, fmt.Sprintf(`webhook_auditor_webhook_reach{%s,class=%q,group="",resource=%q} 1x60`, webhook, class, resource))
		}
		return series
	}
	for _, test := range []struct{ policy, class, resource, alert string }{
		{"Fail", "critical", "pods", "WebhookCriticalResourceSlow"},
		{"Ignore", "critical", "pods", "WebhookCriticalResourceSlow"},
		{"Ignore", "vital", "leases", "WebhookCriticalResourceSlow"},
		{"Fail", "virtual", "tokenreviews", "WebhookCriticalResourceSlow"},
		{"Fail", "sensitive", "secrets", "WebhookSlow"},
		{"Fail", "", "", "WebhookSlow"},
	} {
		t.Run(test.policy+" on "+test.resource, func(t *testing.T) {
			p := evaluateFile(t, fileOf(t, "WebhookSlow", "WebhookCriticalResourceSlow"), tick, slices.Concat(registration(test.policy, test.class, test.resource), admissionHistogram("w", "0.5", 100, 50), []string{limit("w", "validating", 0.5)}))
			if got := p.firing(25 * time.Minute); !slices.Equal(got, []string{test.alert + " w"}) {
				t.Errorf("%q fire, want %s alone", got, test.alert)
			}
		})
	}
}

// TestResourceOfASlowWebhook has requests for two resources wait, one of which a
// slow webhook reaches: WebhookResourceLatencyHigh is about the other alone, as
// the alert on the webhook has the cure of the first. A slow webhook that reaches
// neither hides nothing.
func TestResourceOfASlowWebhook(t *testing.T) {
	var traces []trace
	for _, resource := range []string{"pods", "secrets"} {
		for _, tr := range append(slices.Clone(triggers["WebhookResourceLatencyHigh"]), reach.renamed(`name="w"`, `name="quick"`)) {
			traces = append(traces, tr.renamed(`resource="pods"`, fmt.Sprintf("resource=%q", resource)).renamed(`name="w"`, `name="quick"`))
		}
	}
	traces = append(traces, triggers["WebhookCriticalResourceSlow"]...)
	for _, test := range []struct {
		reached string
		want    []string
	}{
		{"pods", []string{"WebhookCriticalResourceSlow w", "WebhookResourceLatencyHigh secrets"}},
		{"nodes", []string{"WebhookCriticalResourceSlow w", "WebhookResourceLatencyHigh pods", "WebhookResourceLatencyHigh secrets"}},
	} {
		t.Run(test.reached, func(t *testing.T) {
			t.Parallel()
			var of []trace
			for _, tr := range traces {
				if strings.HasPrefix(tr.series, "webhook_auditor_webhook_reach") && strings.Contains(tr.series, `name="w"`) {
					tr = tr.renamed(`resource="pods"`, fmt.Sprintf("resource=%q", test.reached))
				}
				of = append(of, tr)
			}
			p := evaluateFile(t, fileOf(t, "WebhookResourceLatencyHigh", "WebhookCriticalResourceSlow"), minute, faults[0].lines(of))
			p.now = begun * minute
			if got := p.firing(looked * minute); !slices.Equal(got, test.want) {
				t.Errorf("%q fire, want %q", got, test.want)
			}
		})
	}
}
