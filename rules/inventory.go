package rules

import "strings"

// What the auditor knows of webhooks stays known for a day after the last auditor was scraped: an alert
// must not change because its auditor is away. Records read what they recorded before.

// An auditor that was scraped and knew the cluster then, and when. It says all that it knows at once, so
// that what it does not say now is gone. Whether there is what no auditor says now is unknown.
const (
	auditorNow    = `group(last_over_time(webhook_auditor_snapshot_timestamp_seconds[1m]))`
	auditorSeen   = `group(last_over_time(webhook_auditor_snapshot_timestamp_seconds[5m]))`
	auditorWithin = `group(last_over_time(webhook_auditor_snapshot_timestamp_seconds[1d]))`
)

// remembered records what now yields of the auditor's series, which it must
// write as SERIES. Of each webhook there may be one series.
func remembered(name, series, now string) RecordingRule {
	return RecordingRule{
		Name: name, Asks: "What does the auditor say of " + series + ", or did it when it was last seen?",
		Expr: strings.ReplaceAll(now, "SERIES", "last_over_time("+series+"[1m])") + " or on (type, name) (" + name + " and on () " + auditorWithin + " unless on () " + auditorNow + ")",
	}
}

// The records of what the auditor knows.
const (
	// thresholds are the latency thresholds. Each webhook of the auditor's has one.
	thresholds = `cluster_type_name:webhook_auditor_latency_threshold_seconds:last1d`
	// onVital are the webhooks that reach what the cluster's stability depends on.
	onVital = `cluster_type_name:webhook_auditor_reach_vital:last1d`
	// backendDown are the webhooks that no API server can call, by what the auditor knows.
	backendDown = `cluster_type_name:webhook_auditor_backend_down:last1d`
	// failsClosed are the webhooks whose failures refuse requests.
	failsClosed        = `cluster_type_name:webhook_auditor_failure_impact_closed:last1d`
	affectedThresholds = `cluster_type_name:webhook_auditor_latency_threshold_affected_seconds:last1d`
	deregistered       = `cluster_type_name:webhook_auditor_webhook_deleted:group`
	// backends have the namespace "" where none is known.
	backends = `cluster_type_name:webhook_auditor_backend:group`
)

// vitalClasses are those of the resources that the cluster's stability depends on.
const vitalClasses = `class=~"critical|vital|virtual"`

// inventoryRecords stand in the group of what reads them: an alert keeps the namespace that it begins with,
// and a Prometheus that starts must know which webhooks are harmless before an alert on one has waited.
var inventoryRecords = []RecordingRule{
	remembered(thresholds, `webhook_auditor_webhook_latency_threshold_seconds`,
		`max by (type, name, service_namespace) (SERIES)`),
	remembered(onVital, `webhook_auditor_webhook_reach{`+vitalClasses+`}`, `group by (type, name) (SERIES)`),
	remembered(backendDown, `webhook_auditor_finding{check=~"`+strings.Join(backendChecks(), "|")+`"}`,
		`group by (type, name) (SERIES) or on (type, name) max by (type, name) (last_over_time(webhook_auditor_webhook_backend_ready[1m])) == 0`),
}

var affectedInventory = []RecordingRule{
	{Name: affectedThresholds, Asks: "How long may calls of affected webhooks take?", Expr: thresholds + ` and on (type, name) ` + affected},
	{
		Name: deregistered, Asks: "Which webhooks were deleted while their calls failed?",
		Expr: `group by (type, name) (last_over_time(` + affectedThresholds + `[6h])) unless on (type, name) ` + thresholds + ` and on () ` + auditorNow,
	},
	{
		Name: backends, Asks: "In which namespace is the backend of each affected webhook that is still registered? Alerts that fire keep theirs.",
		Expr: `(
			topk by (type, name) (1, group by (type, name, namespace) (ALERTS{alertname=~"` + strings.Join(aboutCalls, "|") + `"}))
			or on (type, name) group by (type, name, namespace) (topk by (type, name) (1,
				label_replace(` + affectedThresholds + `, "namespace", "$1", "service_namespace", "(.*)")))
			or on (type, name) ` + affected + `
		) unless on (type, name) ` + deregistered,
	},
}

// harmless are the webhooks that the auditor knows to reach nothing which the
// cluster's stability depends on. An unknown webhook may.
const harmless = `(` + affectedThresholds + ` unless on (type, name) ` + onVital + `)`

// aboutCalls are the alerts that withBackend labels.
var aboutCalls = []string{
	"WebhookFailingClosed", "WebhookCallsFailing", "WebhookFailingOpen", "WebhookAllCallsFailing", "WebhookCriticalResourceSlow", "WebhookSlow",
	"WebhookRejectionsHigh", "WebhookMatchConditionErrors", "WebhookInternalErrors", "WebhookConversion(Failing|Slow|BlocksControllers)",
}

// withBackend labels the webhooks that an alert is about with the namespaces of
// their backends, and leaves out those that were deleted.
func withBackend(expr string) string {
	return `(` + expr + `) * on (type, name) group_left (namespace) ` + backends
}

// asWebhook gives conversion series the labels of a webhook's series.
func asWebhook(expr string) string {
	return `label_replace(label_replace(` + expr + `, "name", "$1", "crd_name", "(.+)"), "type", "conversion", "", "")`
}

// asCalls gives counters of conversions the labels of calls: the operation is the pair of versions.
func asCalls(expr string) string {
	return `label_join(` + asWebhook(expr) + `, "operation", " to ", "from_version", "to_version")`
}
