package rules

import (
	"fmt"
	"slices"
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

// A latencyCase is a histogram, and the alert that fires on it within half an hour, or "".
type latencyCase struct {
	name, fires string
	series      []string
}

// latencyCases look at both sides of each edge that a threshold may be: exactly one call in a hundred
// beyond it is not slow, hardly more is.
func latencyCases() []latencyCase {
	out := slices.Concat(unevenHistograms(), vitalCases())
	for _, slow := range []float64{100, 102} {
		fires := func(alert string) string {
			if slow > 100 {
				return alert
			}
			return ""
		}
		for edge, seconds := range map[string]float64{"0.1": 0.1, "0.5": 0.5, "1": 1, "2.5": 2.5, "10": 10} {
			out = append(out, latencyCase{
				fmt.Sprintf("admission, %g in 10000 over %s", slow, edge), fires("WebhookSlow"),
				append(admissionHistogram("w", edge, 10000, slow), limit("w", "validating", seconds)),
			})
		}
		for edge, seconds := range map[string]float64{"0.128": 0.1, "0.512": 0.5, "1.024": 1, "4.096": 2.5, "16.384": 10} {
			out = append(out, latencyCase{
				fmt.Sprintf("conversion, %g in 10000 over %s", slow, edge), fires("WebhookConversionSlow"),
				append(histogram(promql.ConversionSeconds, `instance="a",crd_name="c",from_version="v1",to_version="v2",succeeded="true"`, edge, conversionEdges, 10000, slow),
					limit("c", "conversion", seconds)),
			})
		}
	}
	return append(out,
		// A missing auditor does not blind the alert: a webhook that none knows is slow from a second on.
		latencyCase{"unknown, half a second", "", admissionHistogram("w", "0.5", 100, 50)},
		latencyCase{"unknown, a second", "WebhookSlow", admissionHistogram("w", "1", 100, 50)})
}

// unevenHistograms are one histogram in many pieces.
func unevenHistograms() []latencyCase {
	bucket := func(instance, operation, le string, perTick float64) string {
		return fmt.Sprintf(`apiserver_admission_webhook_admission_duration_seconds_bucket{instance=%q,name="w",type="validating",operation=%q,rejected="false",le=%q} 0+%gx60`, instance, operation, le, perTick)
	}
	count := func(instance, operation string, perTick float64) string {
		return fmt.Sprintf(`apiserver_admission_webhook_admission_duration_seconds_count{instance=%q,name="w",type="validating",operation=%q,rejected="false"} 0+%gx60`, instance, operation, perTick)
	}
	out := []latencyCase{
		{"le 1 of one API server and le 1.0 of another, all quick", "", []string{
			bucket("a", "CREATE", "1", 10), bucket("a", "CREATE", "+Inf", 10), count("a", "CREATE", 10),
			bucket("b", "CREATE", "1.0", 10), bucket("b", "CREATE", "+Inf", 10), count("b", "CREATE", 10),
		}},
		{"le 1 of one API server and le 1.0 of another, the second slow", "WebhookSlow", []string{
			bucket("a", "CREATE", "1", 10), bucket("a", "CREATE", "2.5", 10), bucket("a", "CREATE", "+Inf", 10), count("a", "CREATE", 10),
			bucket("b", "CREATE", "1.0", 5), bucket("b", "CREATE", "2.5", 10), bucket("b", "CREATE", "+Inf", 10), count("b", "CREATE", 10),
		}},
		{"one slow operation of two", "WebhookSlow", []string{
			bucket("a", "CREATE", "1", 10), bucket("a", "CREATE", "2.5", 10), bucket("a", "CREATE", "+Inf", 10), count("a", "CREATE", 10),
			bucket("a", "UPDATE", "1", 5), bucket("a", "UPDATE", "2.5", 10), bucket("a", "UPDATE", "+Inf", 10), count("a", "UPDATE", 10),
		}},
		{"idle", "", []string{bucket("a", "CREATE", "1", 0), bucket("a", "CREATE", "+Inf", 0), count("a", "CREATE", 0)}},
		{"four slow calls in five minutes", "", []string{bucket("a", "CREATE", "1", 0), bucket("a", "CREATE", "+Inf", 0.4), count("a", "CREATE", 0.4)}},
		{"all beyond the last edge", "WebhookSlow", []string{bucket("a", "CREATE", "1", 0), bucket("a", "CREATE", "25", 0), bucket("a", "CREATE", "+Inf", 10), count("a", "CREATE", 10)}},
	}
	for i := range out {
		out[i].series = append(out[i].series, limit("w", "validating", 1))
	}
	return out
}

// vitalCases page where the webhook reaches what the cluster's stability depends on, whatever its
// failurePolicy: the wait is the outage.
func vitalCases() []latencyCase {
	var out []latencyCase
	for _, test := range []struct{ policy, class, resource, alert string }{
		{"Fail", "critical", "pods", "WebhookCriticalResourceSlow"},
		{"Ignore", "critical", "pods", "WebhookCriticalResourceSlow"},
		{"Ignore", "vital", "leases", "WebhookCriticalResourceSlow"},
		{"Fail", "virtual", "tokenreviews", "WebhookCriticalResourceSlow"},
		{"Fail", "sensitive", "secrets", "WebhookSlow"},
		{"Fail", "", "", "WebhookSlow"},
	} {
		const webhook = `pod="one",type="validating",name="w",configuration="c"`
		series := append(admissionHistogram("w", "0.5", 100, 50), limit("w", "validating", 0.5), fmt.Sprintf(`webhook_auditor_webhook_info{%s,failure_policy=%q} 1x60`, webhook, test.policy))
		if test.resource != "" {
			series = append(series, fmt.Sprintf(`webhook_auditor_webhook_reach{%s,class=%q,group="",resource=%q} 1x60`, webhook, test.class, test.resource))
		}
		out = append(out, latencyCase{test.policy + " on " + test.resource, test.alert, series})
	}
	return out
}

// TestLatency evaluates them all at once.
func TestLatency(t *testing.T) {
	t.Parallel()
	series := map[string][]string{}
	for _, c := range latencyCases() {
		series[c.name] = c.series
	}
	fires := evaluateFile(t, fileOf(t, "WebhookSlow", "WebhookCriticalResourceSlow", "WebhookConversionSlow"), tick, inClusters(series)).evaluateSpan(0, 28*minute, minute)
	for _, c := range latencyCases() {
		got := map[string]bool{}
		for at := time.Duration(0); at <= 28*minute; at += minute {
			for _, a := range fires(c.name, at) {
				got[a.Labels.Get("alertname")] = true
			}
		}
		if c.fires == "" && len(got) > 0 || c.fires != "" && (len(got) != 1 || !got[c.fires]) {
			t.Errorf("%s: %v fire, want %q", c.name, got, c.fires)
		}
	}
}
