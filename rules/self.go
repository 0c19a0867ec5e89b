package rules

import (
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// anyCalled is what several legs of WebhookInputMetricsMissing share: whether
// the API server called any webhook.
const anyCalled = `webhook:called:group`

var selfShared = []Shared{{anyCalled, `group(` + admissionSeconds + `_count)`}}

var selfAlerts = []Alert{
	{
		Name:        "WebhookInputMetricsMissing",
		Severity:    classify.Warning,
		For:         15 * time.Minute,
		Expr:        missing,
		Summary:     `Alerts on webhooks are blind: {{ $labels.series }} is missing.`,
		Description: `The webhook auditor runs, but Prometheus has no series {{ $labels.series }} of any API server, so the alerts that read it can never fire. Hosted control planes often do not expose it, scrape configurations drop it, and a Prometheus that keeps native histograms alone (scrape_native_histograms without always_scrape_classic_histograms) has none that end in _bucket, _sum or _count. Mend the scraping of the API servers, or silence this alert and rely on the findings, which need no series of the API server.`,
	},
	{
		Name:        "WebhookAuditorDown",
		Severity:    classify.Warning,
		For:         10 * time.Minute,
		Expr:        down,
		Summary:     `The webhook auditor is down.`,
		Description: `Prometheus scrapes no webhook auditor: none runs, or its scraping is broken. Findings about webhooks raise no alerts until it is back, and the other alerts on webhooks know neither thresholds nor namespaces. Look at its Pods ("kubectl get pods -A -l app.kubernetes.io/name=webhook-auditor") and at the Prometheus target.`,
	},
	{
		Name:        "WebhookAuditorStale",
		Severity:    classify.Warning,
		For:         5 * time.Minute,
		Expr:        stale,
		Summary:     `The webhook auditor has lost sight of the cluster.`,
		Description: `The webhook auditor {{ with $labels.pod }}in Pod {{ . }}{{ else }}at {{ $labels.instance }}{{ end }} {{ if $value }}last knew its view of the cluster to be current {{ $value | humanizeDuration }} ago: one of its watches is broken, and what it reports since may be wrong{{ else }}has not seen the cluster since it started, and reports nothing{{ end }}. Its log says why; mostly its ClusterRole lacks a permission or the API server cannot be reached.`,
	},
}

// missing returns one series for each input that is missing. Series of single
// webhooks exist only once one was called, so the first and the last two look
// at what every API server has; the others at series that are born together.
// With a scrape that fails, an API server's series go together, but the
// auditor's stay: what is compared with those is looked for over 5 minutes.
var missing = strings.Join([]string{
	lacks(`last_over_time(webhook_auditor_snapshot_timestamp_seconds[5m])`,
		`last_over_time(apiserver_admission_step_admission_duration_seconds_count[5m])`, `apiserver_admission_step_admission_duration_seconds_count`),
	lacks(anyCalled, requests, requests),
	lacks(anyCalled, admissionSeconds+`_bucket{le="+Inf"}`, admissionSeconds+`_bucket`),
	lacks(`apiserver_request_total{resource="leases"}`,
		`apiserver_request_sli_duration_seconds_sum{resource="leases"}`, `apiserver_request_sli_duration_seconds_sum`),
	lacks(`apiserver_request_total{resource="leases"}`,
		`apiserver_request_duration_seconds_sum{resource="leases"}`, `apiserver_request_duration_seconds_sum`),
}, " or ")

// lacks returns a series labelled with the name where some are there, but none
// of those that are looked for.
func lacks(some, sought, name string) string {
	return `label_replace(group(` + some + `) unless on () group(` + sought + `), "series", "` + name + `", "", "")`
}

// down returns a series where no auditor is scraped; where several clusters
// share a store, for each that had one within the last day.
const down = `
	absent(webhook_auditor_build_info)
	or (group(present_over_time(webhook_auditor_build_info[1d])) unless on () group(webhook_auditor_build_info))`

// stale looks at each auditor by itself: what one of them no longer sees
// changing is mixed with what the others see. The auditor publishes what it
// knows every minute, even where nothing changes. One that never knew anything
// has no timestamp. A failed scrape changes nothing.
const stale = `
	time() - max by (namespace, pod, instance) (last_over_time(webhook_auditor_snapshot_timestamp_seconds[5m])) > 300
	or
	0 * group by (namespace, pod, instance) (
		last_over_time(webhook_auditor_build_info[5m])
		unless on (instance) last_over_time(webhook_auditor_snapshot_timestamp_seconds[5m])
	)`
