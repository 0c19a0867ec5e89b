package rules

import "strings"

// source is how the API server counts the calls of one kind of webhook.
type source struct {
	// by are the labels that tell the webhooks apart.
	by string
	// calls5m and calls1h are how many calls there were in that time, at least
	// of the webhooks that failed in the last hour.
	calls5m, calls1h string
	// failures count the calls that got no usable answer, by what became of the
	// request, and answers those that got one, be it a refusal.
	failures, answers []string
}

// A call that fails is counted by what the API server made of the request: it
// was refused, or let through.
const (
	requests         = `apiserver_admission_webhook_request_total`
	rejections       = `apiserver_admission_webhook_rejection_count`
	admissionSeconds = `apiserver_admission_webhook_admission_duration_seconds`
	failedClosed     = rejections + `{error_type="calling_webhook_error"}`
	failedOpen       = `apiserver_admission_webhook_fail_open_count`
	converted        = `apiserver_crd_conversion_webhook_duration_seconds`
	unconverted      = converted + `_count{succeeded="false"}`
)

// The sources. Policy denials are answers. Conversions are counted on the
// series of real calls: apiserver_conversion_webhook_request_total counts
// no-ops too, and would hide half of a total outage.
var (
	admission = source{
		by:       "name, type",
		calls5m:  callsOfFailing5m,
		calls1h:  callsOfFailing1h,
		failures: []string{failedClosed, failedOpen},
		answers:  []string{requests + `{code="200"}`, rejections + `{error_type!="calling_webhook_error"}`},
	}
	conversion = source{
		by:       "crd_name",
		calls5m:  `sum by (crd_name) (increase(` + converted + `_count[5m]) > 0)`,
		calls1h:  `sum by (crd_name) (increase(` + converted + `_count[1h]) > 0)`,
		failures: []string{unconverted},
		answers:  []string{converted + `_count{succeeded="true"}`},
	}
)

// What the alerts share: the calls of the webhooks that failed in the last hour,
// which are mostly none.
const (
	callsOfFailing5m = `failing_webhook:calls:increase5m`
	callsOfFailing1h = `failing_webhook:calls:increase1h`
)

var failureShared = []Shared{{callsOfFailing5m, callsOfFailing("5m")}, {callsOfFailing1h, callsOfFailing("1h")}}

func callsOfFailing(window string) string {
	return `
		sum by (name, type) (increase(` + requests + `[` + window + `]) > 0)
		and on (name, type) (increase(` + failedClosed + `[1h]) > 0 or increase(` + failedOpen + `[1h]) > 0)`
}

// expr writes the source and one of its failures into a template.
func (s source) expr(template, failure string) string {
	return strings.NewReplacer("BY", s.by, "CALLS5M", s.calls5m, "CALLS1H", s.calls1h, "FAILURES", failure).Replace(template)
}

// failing returns the share of the calls that failed in the last 5 minutes,
// where it matters: over 1 % in the last 5 minutes and in the last hour, and
// enough calls to tell. The last line keeps the tail of one short burst, which
// stays in the 5 minutes for as long as the alert waits, from firing it.
// Counters that stand still, most of them mostly, are left out before the
// costlier sum.
func (s source) failing(failure string) string {
	return s.expr(`
		sum by (BY) (increase(FAILURES[5m])) / CALLS5M > 0.01
		and on (BY) (sum by (BY) (increase(FAILURES[1h])) >= 5) / (CALLS1H >= 20) > 0.01
		and on (BY) sum by (BY) (increase(FAILURES[4m])) > 0`, failure)
}

// silent returns how many calls failed in the last hour where none was
// answered. It is for webhooks that are called too seldom for a ratio. The
// counters are born at their first call, so one that did not exist an hour ago
// has counted all of them.
func (s source) silent() string {
	var legs []string
	for _, failure := range s.failures {
		legs = append(legs, s.expr(`
			(sum by (BY) ((FAILURES unless last_over_time(FAILURES[5m] offset 1h)) or increase(FAILURES[1h])) >= 3) < 20`, failure))
	}
	return `(` + strings.Join(legs, " or ") + s.expr(`) unless on (BY) (`, "") + grew(s.answers) + `)`
}

// grew returns the counters that do not say what they said an hour ago; a scrape
// that failed then or now makes no difference.
func grew(counters []string) string {
	var legs []string
	for _, c := range counters {
		legs = append(legs, strings.ReplaceAll(`(last_over_time(COUNT[5m]) unless last_over_time(COUNT[5m]) == last_over_time(COUNT[5m] offset 1h))`, "COUNT", c))
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
