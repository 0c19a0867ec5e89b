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
	}
	failOpen   = failClosed.failingAs("apiserver_admission_webhook_fail_open_count")
	conversion = source{
		by:       "crd_name",
		calls:    converted + "_count",
		failures: converted + `_count{succeeded="false"}`,
		answers:  []string{converted + `_count{succeeded="true"}`},
		seconds:  converted,
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
		(sum by (BY) (increase(FAILURES[1h]) + (FAILURES unless FAILURES offset 1h) ^ 0 or increase(FAILURES[1h])) >= 3) < 20
		unless on (BY) (`) + grew(s.answers) + ")"
}

// grew returns the counters that do not say what they said an hour ago.
func grew(counters []string) string {
	var legs []string
	for _, c := range counters {
		legs = append(legs, strings.ReplaceAll(`(C unless C == C offset 1h)`, "C", c))
	}
	return strings.Join(legs, " or ")
}

// sustained returns the series that grew in both of the last two quarters of
// an hour: often enough to be no accident, whatever the traffic.
func sustained(series string) string {
	return strings.ReplaceAll(`increase(S[15m]) > 0 and increase(S[15m] offset 15m) > 0`, "S", series)
}

// asWebhook gives conversion series the labels that a webhook is known by.
func asWebhook(expr string) string {
	return `label_replace(label_replace(` + expr + `, "name", "$1", "crd_name", "(.+)"), "type", "conversion", "", "")`
}
