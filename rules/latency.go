package rules

import (
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// slowCallsTo says how many calls are slow, and how slow. Their window is that of slowShare, or
// of slowLong.
func slowCallsTo(subject string) string {
	return `{{ $value | humanizePercentage }} of the calls to ` + subject + ` in 6 minutes, or in six hours if there are few, take longer than its threshold.` +
		`{{ range $facts }}{{ if .Labels.takes }} The {{ .Labels.takes }} is {{ .Value | humanizeDuration }}.{{ end }}{{ end }}`
}

var latencyAlerts = []Alert{
	{
		Name: "WebhookCriticalResourceSlow", Asks: "Which slow webhooks does the cluster depend on?",
		Severity: classify.Critical, For: 30 * time.Second, KeepFiring: 5 * time.Minute,
		// Calls that time out fail, and are slow for longer: the page on the failures says it.
		Expr:        withBackend(slow + `WebhookCriticalResourceSlow and on (type, name) ` + vitalOrUnknown + ` unless on (type, name) ALERTS{alertname="WebhookFailingClosed", alertstate="firing"}`),
		Summary:     `Webhook {{ $labels.name }} slows down requests that the cluster may depend on.`,
		Description: slowCallsTo(webhookNamed) + ` Whatever its failurePolicy, requests wait for it` + forReached + `. The cluster depends on these, or no auditor has reported within a day what it is called for.` + itsBackend + ` If it cannot be repaired at once, lower its timeoutSeconds: see the runbook.`,
		Variables:   webhookVariables,
	},
	{
		Name: "WebhookSlow", Asks: "Which others are slow?",
		Severity: classify.Warning, Enhancement: classify.Critical, For: 30 * time.Second,
		KeepFiring:  5 * time.Minute,
		Expr:        withBackend(slow + `WebhookSlow unless on (type, name) ` + vitalOrUnknown),
		Summary:     `Webhook {{ $labels.name }} is slow.`,
		Description: slowCallsTo(webhookNamed) + ` Each request that it is called for waits that long.` + itsBackend,
		Variables:   webhookVariables,
	},
}

// A webhook is slow where the 99th percentile of its calls is beyond its
// threshold, that is where more than one call in a hundred is. Thresholds are
// edges of the API server's histogram, so counting is exact, and reads one
// bucket where a quantile reads nine.
const (
	slowShare = `cluster_type_name:webhook_auditor_calls_slow:ratio_increase6m`
	slowCount = `cluster_type_name:webhook_auditor_calls_slow:increase6m`
	// slowLong is that of webhooks which are called now and then: slow in 3 slots
	// of 5 minutes, and 5 times, in 6 hours, until they are quick for half an
	// hour, or 20 times within five minutes, or not called any more.
	slowLong = `cluster_type_name:webhook_auditor_calls_slow:ratio_increase6h`

	slowNow = `cluster_type_name:webhook_auditor_calls_slow:share`
	// slowHeld are those that have been slow in 13 of 15 minutes, or of which most calls hang in 5, and
	// for as long as they go on. Nothing begins whose cause has ended: the share of the last six
	// minutes must be what it was, unless hardly any call is made.
	slowHeld = `cluster_type_name:webhook_auditor_calls_slow:held`
	slow     = slowHeld + `{type!="conversion"} > $`

	// vitalOrUnknown are the webhooks that reach what the cluster depends on. Of those of which that is
	// not known, they are those of which calls hang, until the page on it ends.
	vitalOrUnknown = `(` + onVital + ` or (` + hangs + ` or on (type, name) ALERTS{alertname="WebhookCriticalResourceSlow", alertstate="firing"}) unless on (type, name) ` + thresholds + `)`

	hangs = `cluster_type_name:webhook_auditor_calls_hanging:ratio_increase4m`
)

// edges are the buckets of the thresholds. The histogram of conversions has powers of two: the next one.
const edges = `cluster_type_name_le:webhook_auditor_latency_threshold:count`

// quick counts the calls that are no slower than the threshold. Most webhooks
// may take a second, also those without a threshold, which the auditor does not
// know: the last lines read that bucket alone. Of the others, the first reads
// the bucket of each one's threshold. "1.0" and "1" are the same edge.
var quick = `(
		sum by (type, name) (
			(increase(` + promql.WebhookSeconds + `_bucket{le=~"0.1|0.5|2.5|10|10.0"}[WINDOW]) or ` + converting(`bucket{le=~"0.128|0.512|4.096|16.384"}`) + `)
			and on (type, name, le) (` + edges + ` or label_replace(` + edges + `, "le", "10.0", "le", "10"))
		)
		or on (type, name) sum by (type, name) (increase(` + promql.WebhookSeconds + `_bucket{le=~"1|1.0"}[WINDOW]) or ` + converting(`bucket{le="1.024"}`) + `)
	)`

var answered = `sum by (type, name) ((increase(` + promql.WebhookSeconds + `_count[WINDOW]) or ` + converting("count") + `) > 0)`

// converting is how often a series of the histogram of conversions grew.
func converting(series string) string {
	return asWebhook(`increase(` + promql.ConversionSeconds + `_` + series + `[WINDOW])`)
}

// timedIn are expressions about quick and answered calls in a window.
func timedIn(window, expr string) string {
	written := strings.NewReplacer("QUICK", quick, "ANSWERED", "("+answered+")", "SHARE", slowShare).Replace(expr)
	return strings.ReplaceAll(written, "WINDOW", window)
}

// latencyGroup reads several buckets of each webhook, for alerts that wait for minutes.
var latencyGroup = Group{
	Name:           "webhook-auditor-latency",
	Interval:       time.Minute,
	RecordingRules: append(slices.Concat(slowRecords, waitRecords), factsRecord),
}

// slowRecords count exactly one call in a hundred as not too many, but for the rounding of quotients.
var slowRecords = []RecordingRule{
	{Name: edges, Asks: "Which bucket is the threshold of each webhook?", Expr: `
		count_values by (type, name) ("le", ` + thresholds + `{type!="conversion"} or 0.128 * 2 ^ ceil(log2(` + thresholds + `{type="conversion"} / 0.1281)))`},
	{Name: slowShare, Asks: "Which share of the calls of 6m was slow, where more than one in a hundred was?", Expr: timedIn("6m", `1 - QUICK / on (type, name) ANSWERED > 0.01001`)},
	{Name: slowCount, Asks: "How many calls is that?", Expr: timedIn("6m", `SHARE * on (type, name) ANSWERED`)},
	{Name: hangs, Asks: "Which share of the calls of 4m took over 2.5 s, where it is most of them?", Expr: timedIn("4m", `
		(1 - sum by (type, name) (increase(`+promql.WebhookSeconds+`_bucket{le="2.5"}[WINDOW])) / on (type, name) ANSWERED) > $hangingShare and on (type, name) SHARE`)},
}

// slowNowRecords are of the group of what reads them.
func slowNowRecords() []RecordingRule {
	names := strings.NewReplacer("SHARE", slowShare, "COUNT", slowCount, "HANGS", hangs,
		"LONG", slowLong, "SLOW", slowNow, "AGAIN", endedTwice(slowNow), "FIRES", `ALERTS{alertname=~"Webhook(|CriticalResource|Conversion)Slow", alertstate="firing"}`, "CALLED6H", affectedCalls("6h"), "CALLED30", affectedCalls("30m"), "CALLED5", affectedCalls("5m"))
	out := []RecordingRule{
		{Name: slowLong, Asks: "Which share of the calls of 6h was slow, of webhooks that are called now and then?", Expr: `
			clamp_max(sum_over_time(COUNT[6h:5m]) / on (type, name) CALLED6H, 1)
			and on (type, name) sum_over_time(COUNT[6h:5m]) >= 5
			and on (type, name) count_over_time(COUNT[6h:5m]) >= 3
			and on (type, name) count_over_time(COUNT[75m:5m])
			unless on (type, name) (CALLED30 >= 5 unless on (type, name) count_over_time(COUNT[30m:5m]))
			unless on (type, name) (CALLED5 >= 20 unless on (type, name) SHARE)`},
		{
			Name: slowNow, Asks: "Which share of the calls is slow, of webhooks that are? Fewer than five calls, up to rounding, are too few.",
			Expr: `SHARE and on (type, name) COUNT / on (type, name) SHARE > 4.99 or on (type, name) LONG`,
		},
		{Name: slowHeld, Asks: "What has been slow for long, and still is?", Expr: `
			SLOW and on (type, name) (
				(count_over_time(SLOW[15m:1m]) >= 13 or on (type, name) count_over_time(HANGS[5m:1m]) >= 5)
				and on (type, name) (SHARE > 0.85 * max_over_time(SHARE[5m]) or on (type, name) (LONG unless on (type, name) CALLED5 >= 5))
				or on (type, name) FIRES
			) or on (type, name) (last_over_time(SLOW[9m]) and on (type, name) AGAIN and on (type, name) FIRES)`},
	}
	for i := range out {
		out[i].Expr = names.Replace(out[i].Expr)
	}
	return out
}
