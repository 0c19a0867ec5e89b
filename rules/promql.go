package rules

import "strings"

// source is how the API server counts the calls of one kind of webhook.
type source struct {
	// by are the labels that tell the webhooks apart.
	by string
	// calls counts all calls; failures those that got no usable answer, and
	// answers those that got one, be it a refusal.
	calls, failures string
	answers         []string
	// seconds is the histogram of their duration.
	seconds string
	// edges is by how much the histogram's bucket edges lie beyond the
	// thresholds 0.5 and 1.
	edges string
}

const (
	requests   = "apiserver_admission_webhook_request_total"
	rejections = "apiserver_admission_webhook_rejection_count"
	converted  = "apiserver_crd_conversion_webhook_duration_seconds"
)

// The sources. A call that fails is counted in one of two series, by what the
// API server made of it; policy denials are answers. Conversions are counted
// on the series of real calls: apiserver_conversion_webhook_request_total
// counts no-ops too, and would hide half of a total outage.
var (
	failClosed = source{
		by:       "name, type",
		calls:    requests,
		failures: rejections + `{error_type="calling_webhook_error"}`,
		answers:  []string{requests + `{code="200"}`, rejections + `{error_type!="calling_webhook_error"}`},
		seconds:  "apiserver_admission_webhook_admission_duration_seconds",
		edges:    "1",
	}
	failOpen   = failClosed.failingAs("apiserver_admission_webhook_fail_open_count")
	conversion = source{
		by:       "crd_name",
		calls:    converted + "_count",
		failures: converted + `_count{succeeded="false"}`,
		answers:  []string{converted + `_count{succeeded="true"}`},
		seconds:  converted,
		edges:    "1.024",
	}
)

func (s source) failingAs(failures string) source {
	s.failures = failures
	return s
}

// expr writes the source into a template.
func (s source) expr(template string) string {
	return strings.NewReplacer(
		"BY", s.by,
		"CALLS", s.calls,
		"FAILURES", s.failures,
		"SECONDS", s.seconds,
		"EDGES", s.edges,
	).Replace(template)
}

// failing returns the share of the calls that failed in the last 5 minutes,
// where it matters: over 1 % in the last 5 minutes and in the last hour, and
// enough calls to tell. The last line keeps the tail of one short burst, which
// stays in the 5 minutes for as long as the alert waits, from firing it.
func (s source) failing() string {
	return s.expr(`
		sum by (BY) (increase(FAILURES[5m])) / sum by (BY) (increase(CALLS[5m])) > 0.01
		and on (BY) (sum by (BY) (increase(FAILURES[1h])) >= 5) / (sum by (BY) (increase(CALLS[1h])) >= 20) > 0.01
		and on (BY) sum by (BY) (increase(FAILURES[4m])) > 0`)
}

// silent returns how many calls failed in the last hour where none was
// answered. It is for webhooks that are called too seldom for a ratio. The
// counters are born at 1, so a counter that did not exist an hour ago counted
// one call more than it increased.
func (s source) silent() string {
	return s.expr(`
		(sum by (BY) (increase(FAILURES[1h]) + (FAILURES unless FAILURES offset 1h) ^ 0 or increase(FAILURES[1h])) >= 3)
		unless on (BY) (`) + grew(s.answers) + ")"
}

// grew returns the series that counted anything in the last hour.
func grew(series []string) string {
	var legs []string
	for _, s := range series {
		legs = append(legs, strings.ReplaceAll(`increase(S[1h]) > 0 or S unless S offset 1h`, "S", s))
	}
	return strings.Join(legs, " or ")
}

// slow returns the 99th percentile of the seconds that calls take, where it is
// over the webhook's threshold and there are enough calls to tell. Thresholds
// are bucket edges; the margin is for the rounding of a quantile that lies on
// its edge. A webhook without a threshold is one that the auditor does not
// know, or a running auditor is missing: 1 second then.
func (s source) slow(threshold string) string {
	return s.expr(`
		histogram_quantile(0.99, sum by (BY, le) (rate(SECONDS_bucket[5m])))
		> on (BY) 1.001 * EDGES * (` + threshold + ` or on (BY) group by (BY) (SECONDS_count))
		and on (BY) sum by (BY) (increase(SECONDS_count[5m])) >= 5`)
}

// sustained returns the series that grew in both of the last two quarters of
// an hour: often enough to be no accident, whatever the traffic.
func sustained(series string) string {
	return strings.ReplaceAll(`increase(S[15m]) > 0 and increase(S[15m] offset 15m) > 0`, "S", series)
}

// thresholds are the auditor's latency thresholds. Gauges are read over 5
// minutes, so that a failed scrape or a restart changes nothing.
const thresholds = `max by (name, type) (last_over_time(webhook_auditor_webhook_latency_threshold_seconds[5m]))`

// located adds the namespace of the backend to expr, where the auditor tells
// it, and changes neither its values nor its series. Where several series
// claim the name (two replicas disagree for a minute, the backend moved), the
// namespace that was seen most often wins, so that the alert does not change
// its identity. known is a series of all webhooks in expr.
func located(expr, known string) string {
	return `(` + expr + `)
		* on (name, type) group_left (namespace) (
			group by (name, type, namespace) (label_replace(
				topk by (name, type) (1, sum by (name, type, service_namespace) (count_over_time(webhook_auditor_webhook_failure_impact[5m]))),
				"namespace", "$1", "service_namespace", "(.+)"))
			or on (name, type) group by (name, type) (` + known + `)
		)`
}

// asWebhook gives conversion series the labels that a webhook is known by.
func asWebhook(expr string) string {
	return `label_replace(label_replace(` + expr + `, "name", "$1", "crd_name", "(.+)"), "type", "conversion", "", "")`
}

// asCRD gives the auditor's series of conversions the API server's label.
func asCRD(expr string) string {
	return `label_replace(` + expr + `, "crd_name", "$1", "name", "(.+)")`
}
