package rules

import (
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// slowCalls says how many calls are slow, and how slow. Their window is that of slowShare, or
// of slowLong.
const slowCalls = `{{ $value | humanizePercentage }} of the calls to ` + webhookNamed + ` in 6 minutes, or in six hours if there are few, take longer than its threshold.` +
	`{{ range $facts }}{{ if .Labels.takes }} The {{ .Labels.takes }} is {{ .Value | humanizeDuration }}.{{ end }}{{ end }}`

func latencyAlerts() []Alert {
	return []Alert{
		{
			Name: "WebhookCriticalResourceSlow", Asks: "Which slow webhooks does the cluster depend on, where they have been for 10 minutes, or calls hang?",
			Severity: classify.Critical, For: 5 * time.Minute, KeepFiring: 5 * time.Minute,
			Expr:        withBackend(slow + ` and on (type, name) ` + onVital + ` and on (type, name) (` + hangs + ` or ` + slowForLong + `)` + unlessFailing),
			Summary:     `Webhook {{ $labels.name }} slows down requests that the cluster depends on.`,
			Description: slowCalls + ` Each request` + forReached + `, waits for it, whatever its failurePolicy.` + itsBackend + ` If it cannot be repaired at once, lower its timeoutSeconds: see the runbook.`,
			Variables:   webhookVariables,
		},
		{
			Name: "WebhookSlow", Asks: "Which others are slow?",
			Severity: classify.Warning, Enhancement: classify.Critical, For: 10 * time.Minute, KeepFiring: 5 * time.Minute,
			Expr:        withBackend(slow + ` unless on (type, name) ` + onVital),
			Summary:     `Webhook {{ $labels.name }} is slow.`,
			Description: slowCalls + ` Each request that it is called for waits that long.` + itsBackend,
			Variables:   webhookVariables,
		},
	}
}

// A webhook is slow where the 99th percentile of its calls is beyond its
// threshold, that is where more than one call in a hundred is. Thresholds are
// edges of the API server's histogram, so counting is exact, and reads one
// bucket where a quantile reads nine.
const (
	// slowShare is the share of slow calls, of webhooks of which more than one
	// call in a hundred is: mostly none.
	slowShare = `cluster_type_name:webhook_auditor_calls_slow:ratio_increase6m`
	// slowCount are the slow calls of these.
	slowCount = `cluster_type_name:webhook_auditor_calls_slow:increase6m`
	// slowLong is that of webhooks which are called now and then: slow in 3 slots
	// of 5 minutes, and 5 times, in 6 hours, until they are quick for half an
	// hour, or 20 times within five minutes, or not called any more.
	slowLong = `cluster_type_name:webhook_auditor_calls_slow:ratio_increase6h`

	// slowLately is the share of slow calls of 4 minutes, of those of slowShare.
	slowLately = `cluster_type_name:webhook_auditor_calls_slow:ratio_increase4m`
	// quickNow are those of which at least five calls should have been slow in the last four
	// minutes, and none was: a storm that is over pages no more.
	quickNow = `cluster_type_name:webhook_auditor_calls_quick:group`

	// unlessFailing leaves out the webhooks that page as their calls fail. Those that time
	// out are slow as well, and for longer: they must not page again when calls are
	// answered.
	unlessFailing = ` unless on (type, name) ALERTS{alertname="WebhookFailingClosed", alertstate="firing"}`

	// slowNow is the share of slow calls, of those that are called all the time, and of the others.
	slowNow = `cluster_type_name:webhook_auditor_calls_slow:share`
	slow    = slowNow + ` > $threshold`

	// slowForLong are the webhooks that have been slow for 10 minutes, or for which it pages.
	slowForLong = `count_over_time(` + slowNow + `[10m:1m]) >= 10 or ALERTS{alertname="WebhookCriticalResourceSlow"}`

	// hangs is the share of the calls that take so long that clients give up.
	hangs = `cluster_type_name:webhook_auditor_calls_hanging:ratio_increase4m`
)

// tooMany is the share of the calls that are slow, with a margin for the
// rounding of quotients.
const tooMany = `0.01001`

// edges are the buckets of the webhooks whose threshold is not a second.
const edges = `cluster_type_name_le:webhook_auditor_latency_threshold:count`

// quick counts the calls that are no slower than the threshold. Most webhooks
// may take a second, also those without a threshold, which the auditor does not
// know: the last line reads that bucket alone. Of the others, the first reads
// the bucket of each one's threshold. "1.0" and "1" are the same edge.
const quick = `(
		sum by (type, name) (
			increase(` + promql.WebhookSeconds + `_bucket{le=~"0.1|0.5|2.5|10|10.0"}[WINDOW])
			and on (type, name, le) (` + edges + ` or label_replace(` + edges + `, "le", "10.0", "le", "10"))
		)
		or on (type, name) sum by (type, name) (increase(` + promql.WebhookSeconds + `_bucket{le=~"1|1.0"}[WINDOW]))
	)`

const answered = `sum by (type, name) (increase(` + promql.WebhookSeconds + `_count[WINDOW]) > 0)`

// notQuick is the share of the calls that are not, where it is too large.
const notQuick = `1 - ` + quick + ` / on (type, name) (` + answered + `) > ` + tooMany

// latencyGroup reads several buckets of each webhook, for alerts that wait for ten
// minutes.
var latencyGroup = Group{
	Name:           "webhook-auditor-latency",
	Interval:       time.Minute,
	RecordingRules: append(slices.Concat(slowRecords, slowConversionRecords, waitRecords), factsRecord),
}

var slowRecords = []RecordingRule{
	{Name: edges, Asks: "Which bucket is the threshold of each webhook that may not take a second?", Expr: `count_values by (type, name) ("le", ` + thresholds + ` != 1)`},
	{Name: slowShare, Asks: "Which share of the calls of 6m was slow, where more than one in a hundred was?", Expr: strings.ReplaceAll(notQuick, "WINDOW", "6m")},
	{Name: slowCount, Asks: "How many calls is that?", Expr: slowShare + ` * on (type, name) (` + strings.ReplaceAll(answered, "WINDOW", "6m") + `)`},
	{Name: slowLately, Asks: "Which share of the calls of 4m was slow, of these?", Expr: lately(`(1 - ` + quick + ` / on (type, name) (` + answered + `)) and on (type, name) ` + slowShare)},
	{Name: quickNow, Asks: "Which of these have become quick?", Expr: lately(`group by (type, name) (` + answered + ` * on (type, name) ` + slowShare + ` > 5) unless on (type, name) ` + slowLately + ` > 0.0001`)},
	{Name: hangs, Asks: "Which share of the calls of 4m took over 2.5 s, where it is most of them?", Expr: lately(`
		(1 - sum by (type, name) (increase(` + promql.WebhookSeconds + `_bucket{le="2.5"}[WINDOW])) / on (type, name) (` + answered + `)) > $hangingShare
		and on (type, name) ` + slowShare)},
}

// lately is an expression about the last four minutes.
func lately(expr string) string { return strings.ReplaceAll(expr, "WINDOW", "4m") }

var slowNowRecord = RecordingRule{
	Name: slowNow, Asks: "Which share of the calls is slow, of webhooks that are? Fewer than five calls, up to rounding, are too few.",
	Expr: slowShare + ` and on (type, name) ` + slowCount + ` / on (type, name) ` + slowShare + ` > 4.99 unless on (type, name) ` + quickNow + ` or on (type, name) ` + slowLong,
}

var slowLongRecord = RecordingRule{
	Name: slowLong, Asks: "Which share of the calls of 6h was slow, of webhooks that are called now and then?",
	Expr: `
		clamp_max(sum_over_time(` + slowCount + `[6h:5m]) / on (type, name) ` + affectedCalls("6h") + `, 1)
		and on (type, name) sum_over_time(` + slowCount + `[6h:5m]) >= 5
		and on (type, name) count_over_time(` + slowCount + `[6h:5m]) >= 3
		and on (type, name) count_over_time(` + slowCount + `[75m:5m])
		unless on (type, name) (` + affectedCalls("30m") + ` >= 5 unless on (type, name) count_over_time(` + slowCount + `[30m:5m]))
		unless on (type, name) (` + affectedCalls("5m") + ` >= 20 unless on (type, name) ` + slowShare + `)`,
}

// slowConversion compares a quantile: the edges of this histogram are powers
// of two, and lie by the factor 1.024 beyond the thresholds 0.5 and 1. The
// margin is for a quantile that lies on its edge. A CRD whose objects are
// converted now and then is slow where it is in both of the last two quarters of
// an hour. Without a threshold of its own it may take a second.
const slowConversion = `cluster_type_name:webhook_auditor_conversions_slow:p99`

// The records that it compares: the quantiles and the limit.
const (
	conversionLimit = `cluster_type_name:webhook_auditor_conversion_limit_seconds:max`
	quantile5m      = `cluster_type_name:webhook_auditor_conversion_seconds:p99_5m`
	quantile15m     = `cluster_type_name:webhook_auditor_conversion_seconds:p99_15m`
)

var slowConversionRecords = []RecordingRule{
	{Name: conversionLimit, Asks: "How long may a conversion of each CRD take?", Expr: `1.001 * 1.024 * (max by (type, name) (` + thresholds + ` and on (type, name) ` + convertedIn("30m") + `) or on (type, name) ` + convertedIn("30m") + ` ^ 0)`},
	{Name: quantile5m, Asks: "How long do all but one in a hundred take, in 5m?", Expr: quantileOf("5m")},
	{Name: quantile15m, Asks: "How long in 15m?", Expr: quantileOf("15m")},
	{Name: slowConversion, Asks: "Of which CRDs are conversions slow?", Expr: `
		` + quantile5m + ` > on (type, name) ` + conversionLimit + ` and on (type, name) ` + convertedIn("5m") + ` >= 5
		or on (type, name) (
			` + quantile15m + ` > on (type, name) ` + conversionLimit + `
			and on (type, name) (` + quantile15m + ` offset 15m > on (type, name) ` + conversionLimit + `)
			and on (type, name) ` + convertedIn("30m") + ` >= 5
		)`},
}

// quantileOf is the 99th percentile of the conversions in a window.
func quantileOf(window string) string {
	return asWebhook(`histogram_quantile(0.99, sum by (crd_name, le) (rate(` + promql.ConversionSeconds + `_bucket[` + window + `])))`)
}

func convertedIn(window string) string {
	return asWebhook(`sum by (crd_name) (increase(` + promql.ConversionSeconds + `_count[` + window + `]))`)
}
