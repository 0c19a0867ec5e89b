package rules

import (
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// selfGroup is the name of the group of selfAlerts.
const selfGroup = "webhook-auditor-self"

var selfAlerts = []Alert{
	{
		Name: "WebhookAuditorDown", Asks: "Is no auditor scraped, where one was within a week?",
		Severity: classify.Warning, For: 10 * time.Minute,
		Expr:        down,
		Summary:     `The webhook auditor is down.`,
		Description: `Prometheus has scraped no webhook auditor: none runs, or its target is broken. Findings are kept for 45 minutes, then raise no alerts until it is back. Other alerts use its last data for a day. See "kubectl get pods -A -l app.kubernetes.io/name=webhook-auditor".`,
	},
	{
		Name: "WebhookUnwatched", Asks: "Is neither an auditor nor an API server scraped?",
		Severity: classify.Critical, For: 15 * time.Minute,
		Expr:        unwatched,
		Summary:     `Nothing watches the cluster's webhooks.`,
		Description: `Prometheus scrapes no webhook auditor and no API server, though they are its targets. No alert on webhooks can fire. Look at Prometheus' targets, network and credentials. Does the API server answer? "kubectl get --raw /readyz".`,
	},
	{
		Name: "WebhookAuditorStale", Asks: "Which auditors no longer see what changes?",
		Severity: classify.Warning, For: 5 * time.Minute,
		Expr:        stale,
		Summary:     `The data of a webhook auditor is stale.`,
		Description: `The webhook auditor {{ with $labels.pod }}in Pod {{ . }}{{ else }}at {{ $labels.instance }}{{ end }} {{ if $value }}last saw the cluster as it is {{ $value | humanizeDuration }} ago. One of its watches is broken, so its reports may be wrong{{ else }}has not seen the cluster since it started, and reports nothing{{ end }}. Mostly its ClusterRole lacks a permission. Its log says why: "kubectl {{ with $labels.namespace }}-n {{ . }} {{ end }}logs -l app.kubernetes.io/name=webhook-auditor".`,
	},
	{
		Name: "WebhookAuditorSeriesDropped", Asks: "Of which families does the auditor drop series?",
		Severity: classify.Warning, For: 15 * time.Minute,
		Expr:        `max by (family) (last_over_time(webhook_auditor_series_dropped[5m])) > 0`,
		Summary:     `The webhook auditor drops series of {{ $labels.family }}.`,
		Description: `{{ $value | printf "%.0f" }} series of {{ $labels.family }} are beyond the bound of the family. Alerts and boards lack them. The least important are dropped first. The state in short: "kubectl get webhookaudit cluster -o yaml". All findings: "webhook-auditor audit".`,
	},
	{
		Name: "WebhookAuditorPolicyInvalid", Asks: "Does an auditor run with an older Policy than it was given?",
		Severity: classify.Warning, For: 5 * time.Minute,
		Expr:        `group(last_over_time(webhook_auditor_policy_last_reload_successful[5m]) == 0)`,
		Summary:     `The webhook auditor cannot load its Policy.`,
		Description: `The Policy of the webhook auditor is invalid. The last good one stays in effect until the Pods restart; then they do not start. Correct the ConfigMap: the log of a Pod names the key. See "kubectl get pods -A -l app.kubernetes.io/name=webhook-auditor".`,
	},
}

// down returns a series where no auditor is scraped; where several clusters share a store, for each that
// had one within the last week: a cluster that was deleted or renamed is not missed for ever.
const down = `
	group(present_over_time(webhook_auditor_build_info{cluster!=""}[7d:10m])) unless on () group(webhook_auditor_build_info)
	or absent(
		webhook_auditor_build_info
		or present_over_time(webhook_auditor_build_info{cluster!=""}[15d:10m])
	)`

// unwatched asks for targets that were API servers and still are targets: a cluster that
// is gone, or has another name, has none, and does not page.
const unwatched = `
	group(ALERTS{alertname="WebhookAuditorDown", alertstate="firing"})
	unless on () last_over_time(` + scraped + `[5m])
	and on () (up and on (job, instance) last_over_time(` + scraped + `[1d]))`

// stale is how old the view of an auditor is that no longer sees what changes, or 0 where it never saw anything. It
// looks at each auditor by itself: what one of them no longer sees changing is mixed with what the
// others see. The auditor publishes what it knows every minute, even where nothing changes: a timestamp
// that does not advance is stale, and one that moves is not, however far its clock is ahead or behind. A
// failed scrape changes nothing.
const stale = `
	clamp_min(
		time() - (
			max by (namespace, pod, instance) (last_over_time(webhook_auditor_snapshot_timestamp_seconds[5m]))
			== max by (namespace, pod, instance) (last_over_time(webhook_auditor_snapshot_timestamp_seconds[5m] offset 5m))
		),
		300
	)
	or
	0 * group by (namespace, pod, instance) (
		last_over_time(webhook_auditor_build_info[5m])
		unless on (instance) last_over_time(webhook_auditor_snapshot_timestamp_seconds[5m])
	)`
