package rules

import (
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

var latencyAlerts = []Alert{
	{
		Name:        "WebhookCriticalResourceSlow",
		Severity:    classify.Critical,
		For:         10 * time.Minute,
		Expr:        slow + ` and on (name, type, threshold) ` + onCritical,
		Backend:     backendByName,
		Summary:     `Webhook {{ $labels.name }} slows down critical resources.`,
		Description: slowCalls + `. It is called for resources that the cluster's stability hangs on, and fails closed: each of those requests waits for it, and is refused once it times out.` + itsBackend + registration + ` If it cannot be mended at once,` + breakGlass,
	},
	{
		Name:        "WebhookSlow",
		Severity:    classify.Warning,
		Enhancement: classify.Critical,
		For:         10 * time.Minute,
		Expr:        slow + ` unless on (name, type, threshold) ` + onCritical,
		Backend:     backendByName,
		Summary:     `Webhook {{ $labels.name }} is slow.`,
		Description: slowCalls + `, the threshold for it. Each request that it is called for waits that long.` + itsBackend + registration,
	},
}

// slow is what the alerts share: the share of slow calls of each slow webhook,
// with its threshold.
const slow = `webhook:slow_calls:ratio5m`

var latencyShared = []Shared{{slow, slowShare}}

// A webhook is slow where the 99th percentile of its calls is beyond its
// threshold, that is where more than one call in a hundred is. Thresholds are
// edges of the API server's histogram, so counting is exact, and reads one
// bucket where a quantile reads nine. tooFew is the share of the calls that are
// quicker, with a margin for the rounding of quotients; fewer than five calls
// tell nothing.
const (
	tooFew  = `0.98999`
	calls5m = `(sum by (name, type) (increase(` + admissionSeconds + `_count[5m]) > 0) >= 5)`
)

// Most webhooks may take a second, also those without a threshold, which the
// auditor does not know or no auditor runs for: quickest reads that bucket
// alone. Of the others, quicker reads the bucket of each one's threshold, by
// the name that this has as an edge. "1.0" and "1" are the same edge. The
// auditor's gauges are read over 5 minutes, so that a failed scrape or a restart
// changes nothing.
const (
	unusual = `max by (name, type) (last_over_time(webhook_auditor_webhook_latency_threshold_seconds[5m])) != 1`
	quicker = `
		sum by (name, type, threshold) (
			label_replace(increase(` + admissionSeconds + `_bucket{le=~"0.1|0.5|2.5|10|10.0"}[5m]), "threshold", "$1", "le", "(.+?)([.]0)?")
			and on (name, type, threshold) count_values by (name, type) ("threshold", ` + unusual + `)
		)`
	quickest = `label_replace(sum by (name, type) (increase(` + admissionSeconds + `_bucket{le=~"1|1.0"}[5m])), "threshold", "1", "", "")`
)

const slowShare = `
	1 - (
		(` + quicker + ` or on (name, type) ` + quickest + `)
		/ on (name, type) group_left () ` + calls5m + ` < ` + tooFew + `
	)`

// onCritical selects the webhooks that fail closed on a critical resource, which
// are held to half a second: one and the same registration must do both, and a
// name may have several. Whoever grants such a webhook another threshold gets
// WebhookSlow beyond that.
const onCritical = `
	label_replace(
		last_over_time(webhook_auditor_webhook_reach{class="critical"}[5m])
		unless on (type, configuration, name) last_over_time(webhook_auditor_webhook_info{failure_policy="Ignore"}[5m]),
		"threshold", "0.5", "", "")`

// slowConversion compares a quantile: the edges of this histogram are powers
// of two, and lie by the factor 1.024 beyond the thresholds 0.5 and 1. The
// margin is for a quantile that lies on its edge.
const slowConversion = `
	label_replace(label_replace(
		histogram_quantile(0.99, sum by (crd_name, le) (rate(apiserver_crd_conversion_webhook_duration_seconds_bucket[5m])))
		> on (crd_name) 1.001 * 1.024 * (
			label_replace(max by (name) (last_over_time(webhook_auditor_webhook_latency_threshold_seconds{type="conversion"}[5m])), "crd_name", "$1", "name", "(.+)")
			or on (crd_name) group by (crd_name) (apiserver_crd_conversion_webhook_duration_seconds_count)
		)
		and on (crd_name) sum by (crd_name) (increase(apiserver_crd_conversion_webhook_duration_seconds_count[5m])) >= 5,
		"name", "$1", "crd_name", "(.+)"), "type", "conversion", "", "")`
