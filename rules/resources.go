package rules

import (
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// resourcesGroup is the name of the group of resourceAlerts.
const resourcesGroup = "webhook-auditor-resources"

var resourceAlerts = []Alert{
	{
		Name: "WebhookErrorsExplained", Asks: "Are most errors of the API servers refusals for failed calls?",
		Severity: classify.Info, For: time.Minute, KeepFiring: 5 * time.Minute,
		Expr:        explained,
		Summary:     `Failed calls to webhooks are most errors of the API servers.`,
		Description: `{{ $value | humanizePercentage }} of the errors that API servers answered in 30 minutes are refusals for failed calls to webhooks. It explains KubeAPIErrorBudgetBurn, and needs no receiver: the alerts on the webhooks say what to do. See "kubectl get --raw /metrics | grep apiserver_admission_webhook_rejection_count".`,
	},
	{
		Name: "WebhookResourceLatencyHigh", Asks: "Which requests wait for webhooks, where no slow webhook explains it?",
		Severity: classify.Warning, Enhancement: classify.Critical, For: 30 * time.Second,
		Expr:        longWait,
		Summary:     `Webhooks slow down requests for {{ $labels.resource }}{{ with $labels.group }}.{{ . }}{{ end }}.`,
		Description: `{{ if eq $labels.webhooks "conversion" }}Each request for` + resource + ` waits {{ $value | humanizeDuration }} on average of 5 minutes for the CRD's conversion webhook.{{ else }}Each {{ $labels.verb }} request for` + resource + ` waits {{ $value | humanizeDuration }} on average of 5 minutes. It waits for all of its admission webhooks together, or in queues (apiserver_flowcontrol_request_wait_duration_seconds).{{ end }} Where one webhook alone is slow, WebhookSlow names it. See "kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations -o wide".`,
		Variables:   request + variables("OPERATION RESOURCE", "$operation $name"),
	},
}

// explained is the share of the errors of API servers in 30 minutes that are refusals for failed calls.
const explained = `
	sum(increase(` + failedClosed + `[30m]) or increase(` + unconverted + `[30m]))
	/ on () sum(increase(apiserver_request_total{code=~"5.."}[30m])) > $explainedShare`

// request sets $operation and $name to what "webhook-auditor explain" calls the
// requests that an alert is about.
const request = `{{ $operation := "update" }}{{ if eq $labels.verb "POST" }}{{ $operation = "create" }}{{ else if match "^DELETE" $labels.verb }}{{ $operation = "delete" }}{{ else if eq $labels.verb "CONNECT" }}{{ $operation = "connect" }}{{ end }}` +
	`{{ $name := $labels.resource }}{{ with $labels.group }}{{ $name = printf "%s.%s" $name . }}{{ end }}{{ with $labels.subresource }}{{ $name = printf "%s/%s" $name . }}{{ end }}`

// resource names the resource that an alert is about.
const resource = ` {{ $labels.resource }}{{ with $labels.subresource }}/{{ . }}{{ end }}{{ with $labels.group }} of {{ . }}{{ end }}`

const writes = `verb=~"POST|PUT|PATCH|APPLY|DELETE|DELETECOLLECTION|CONNECT"`

// The records of how long requests wait for webhooks. Those of the API servers'
// requests have as many series as all webhooks together, so each is read once.
const (
	ownRequests = `cluster_group_resource_subresource_verb:webhook_auditor_requests:increase5m`
	admissions  = `cluster_group_resource_subresource_verb:webhook_auditor_admission_wait_seconds:avg5m`
	convertings = `cluster_group_resource:webhook_auditor_conversion_wait_seconds:avg5m`
	waiting     = `cluster_group_resource_subresource_verb:webhook_auditor_webhooks_wait_seconds:avg5m`
)

var waitRecords = []RecordingRule{
	{Name: ownRequests, Asks: "How many requests were there in 5m, by what they are for?", Expr: perVerb(sliDuration + `_count{verb!="WATCH"}`)},
	{Name: admissions, Asks: "How long does one wait for admission webhooks? That is how long all take, less how long they do without.", Expr: `
		(` + perVerb(fullDuration+`_sum{dry_run="", `+writes+`}`) + ` - on (group, resource, subresource, verb) ` + perVerb(sliDuration+`_sum{`+writes+`}`) + `)
		/ on (group, resource, subresource, verb) (` + ownRequests + ` >= 5)`},
	{Name: convertings, Asks: "How long does one wait for conversion webhooks?", Expr: `
		sum by (crd_name) (increase(` + promql.ConversionSeconds + `_sum[5m])) / on (crd_name) group_right () label_join(
			sum by (group, resource) (` + ownRequests + `{group!="", subresource="", verb!="CONNECT"}) >= 5, "crd_name", ".", "resource", "group")`},
	{Name: waiting, Asks: "Where is that too long?", Expr: `
		(label_replace(` + admissions + `, "webhooks", "admission", "", "") or label_replace(` + convertings + `, "webhooks", "conversion", "", ""))
		> on (group, resource) group_left () (
			0.5 * group by (group, resource) (last_over_time(webhook_auditor_webhook_reach{class=~"critical|vital"}[5m]))
			or on (group, resource) group by (group, resource) (` + ownRequests + `)
		)`},
}

// perVerb is how much the series of each kind of request grew.
func perVerb(series string) string {
	return `sum by (group, resource, subresource, verb) (increase(` + series + `[5m]))`
}

// longWait is the average wait of a request that has been too long for ten of 15 minutes, and goes on:
// nothing begins whose cause has ended. The API server's own service level indicator leaves out what it
// waits for admission webhooks (and in queues), but not conversions. Dry runs are in one of the two series
// only. Resources that a webhook reaches which is known to be slow are left out: its own alert has the
// cure. The auditor lists those of the classes alone.
const longWait = `
	(
		` + waiting + ` and count_over_time(` + waiting + `[15m:1m]) >= 10 and ` + waiting + ` > 0.75 * avg_over_time(` + waiting + `[5m])
		or ` + waiting + ` and on (group, resource, subresource, verb, webhooks) ALERTS{alertname="WebhookResourceLatencyHigh", alertstate="firing"}
	)
	unless on (group, resource) (
		webhook_auditor_webhook_reach
		and on (type, name) ALERTS{alertname=~"WebhookSlow|WebhookCriticalResourceSlow|WebhookFailingClosed", alertstate="firing"}
	)
	unless on (group, resource) label_replace(label_replace(
		ALERTS{alertname="WebhookConversionSlow", alertstate="firing"},
		"resource", "$1", "name", "([^.]+)[.].+"), "group", "$1", "name", "[^.]+[.](.+)")`
