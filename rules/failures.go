package rules

import (
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// The words that descriptions share.
const (
	admissionWebhook = `the {{ if eq $labels.type "admit" }}mutating{{ else }}{{ $labels.type }}{{ end }} webhook {{ $labels.name }}`
	conversionOf     = `the conversion webhook of the CRD {{ $labels.name }}`
	itsBackend       = `{{ with $labels.namespace }}{{ if match "^[-a-z0-9]+$" . }} Its backend is in namespace {{ . }}: start with "kubectl -n {{ . }} get services,endpointslices,pods".{{ end }}{{ end }}`
	registration     = `{{ with $registered }} It is registered by the {{ if eq $labels.type "admit" }}mutating{{ else }}validating{{ end }}webhookconfiguration{{ . }}.{{ end }}`
	ofSome           = `{{ with $apiservers }} Only calls of{{ . }} fail: ask that API server, and look at its network.{{ end }}`
	breakGlass       = ` break the glass: save the configuration with "kubectl get -o yaml" and delete it, which always works, or narrow it. The runbook has the commands, and those that restore it.`
)

// The variables of the commands in runbooks.
var (
	webhookVariables    = kindVariable + variables("KIND CONFIGURATION NAME NAMESPACE", "$kind $configuration $labels.name $labels.namespace")
	failureVariables    = kindVariable + variables("KIND CONFIGURATION NAME NAMESPACE INSTANCE", "$kind $configuration $labels.name $labels.namespace $instance")
	conversionVariables = variables("NAME NAMESPACE", "$labels.name $labels.namespace")
)

// kindVariable is the kind of the object that registers a webhook. A conversion has
// none: the runbooks delete what registers a webhook, and with a CRD all of its
// objects go.
const kindVariable = `{{ $kind := "validatingwebhookconfiguration" }}{{ if eq $labels.type "admit" }}{{ $kind = "mutatingwebhookconfiguration" }}{{ else if eq $labels.type "conversion" }}{{ $kind = "" }}{{ end }}`

// variables ends a description with what is pasted before the commands of the
// runbook: an assignment of each value to its name, where no value means anything
// to a shell.
func variables(names, values string) string {
	return `{{ with printf "` + strings.ReplaceAll(names, " ", "=%s ") + `=%s" ` + values + ` }}{{ if match "^([A-Z]+=[-.:/a-z0-9]*( |$))+$" . }} Variables of the runbook: {{ . }}{{ end }}{{ end }}`
}

// unevaluatedClosed is the share of UNEVALUATED for which requests are refused.
const unevaluatedClosed = `(UNEVALUATED and on (type, name) ` + failsClosed + `)`

func failureAlerts() []Alert {
	either := func(of func(failure) string) string {
		return of(closed) + ` or on (type, name) ` + strings.ReplaceAll(unevaluatedClosed, "UNEVALUATED", of(unevaluated))
	}
	return []Alert{
		{
			Name:        "WebhookFailingClosed",
			Severity:    classify.Critical,
			For:         30 * time.Second,
			KeepFiring:  3 * time.Minute,
			Threshold:   0.06,
			Expr:        withBackend("WebhookFailingClosed", `(`+either(failure.burning)+`) > $threshold unless on (type, name) `+harmless),
			Summary:     `Requests that the cluster depends on are refused because calls to webhook {{ $labels.name }} fail.`,
			Description: `{{ $value | humanizePercentage }} of the calls to ` + admissionWebhook + ` fail, and the API server refuses those requests. It is called for resources that the cluster's stability depends on, or no auditor has reported for which ones.` + ofSome + itsBackend + registration + ` If it cannot be repaired at once,` + breakGlass + failureVariables,
		},
		{
			Name:        "WebhookCallsFailing",
			Severity:    classify.Warning,
			Enhancement: Enhancement{classify.Critical, 0.01},
			For:         30 * time.Second,
			KeepFiring:  15 * time.Minute,
			Threshold:   0.05,
			Expr:        withBackend("WebhookCallsFailing", either(failure.failing)),
			Summary:     `Requests are refused because calls to webhook {{ $labels.name }} fail.`,
			Description: `{{ $value | humanizePercentage }} of the calls to ` + admissionWebhook + ` fail, and the API server refuses those requests.` + ofSome + itsBackend + registration + ` If it cannot be repaired,` + breakGlass + failureVariables,
		},
		{
			Name:        "WebhookFailingOpen",
			Severity:    classify.Warning,
			Enhancement: Enhancement{classify.Critical, 0.01},
			For:         30 * time.Second,
			KeepFiring:  15 * time.Minute,
			Threshold:   0.05,
			Expr:        withBackend("WebhookFailingOpen", open.failing()+` or on (type, name) (`+unevaluated.failing()+` unless on (type, name) `+failsClosed+`)`),
			Summary:     `Requests pass unchecked because calls to webhook {{ $labels.name }} fail.`,
			Description: `{{ $value | humanizePercentage }} of the calls to ` + admissionWebhook + ` fail, and the API server lets those requests pass without it (failurePolicy Ignore): what it enforces or injects is missing from them.` + ofSome + itsBackend + registration + failureVariables,
		},
		{
			Name:        "WebhookAllCallsFailing",
			Severity:    classify.Warning,
			Enhancement: Enhancement{Severity: classify.Critical},
			For:         15 * time.Minute,
			KeepFiring:  5 * time.Minute,
			Expr:        withBackend("WebhookAllCallsFailing", withoutAnswers("type, name", []string{failedClosed, promql.FailedOpen}, "", lastAnswers+` unless `+lastAnswers+` == `+answersBefore)+` unless on (type, name) (`+warned+` and on (type, name) (`+closed.sum("increase75m")+` >= 20 or `+open.sum("increase75m")+` >= 20)) or on (type, name) `+unansweredDay),
			Summary:     `The seldom called webhook {{ $labels.name }} answers none of its calls.`,
			Description: `All of the last {{ $value | printf "%.0f" }} calls to ` + admissionWebhook + ` failed. It is called too seldom for a failure rate, and nothing shows that it works at all.` + ofSome + itsBackend + registration + webhookVariables,
		},
		{
			Name:        "WebhookNoneReachable",
			Severity:    classify.Critical,
			For:         time.Minute,
			KeepFiring:  5 * time.Minute,
			Expr:        cutOff + ` and on (instance) count_over_time(` + noneReachable + `[5m:1m]) >= 3`,
			Summary:     `API server {{ $labels.instance }} reaches none of its webhooks.`,
			Description: `{{ $value | humanizePercentage }} of the calls of API server {{ $labels.instance }} to webhooks fail, while their backends are not to blame{{ if $everywhere }}: no API server of the cluster reaches any, so look at what they have in common. What fails closed is refused for each client of the cluster. Look at the network between the API servers and the webhooks:{{ else }}: other API servers reach them, or they are several. What fails closed is refused for each client of this API server. Look at its network:{{ end }} the konnectivity agents or tunnels of a hosted control plane, network policies and firewalls of its node, the DNS and the routes to Services. The alerts on single webhooks leave the calls of this API server out.` + variables("INSTANCE", "$labels.instance"),
		},
	}
}

// warned are the webhooks that alerts with a failure rate are about.
const warned = `ALERTS{alertname=~"WebhookFailingClosed|WebhookCallsFailing|WebhookFailingOpen"}`

// unansweredDay counts the failures of the last day where calls failed in three of
// its hours and none was answered.
const unansweredDay = `cluster_type_name:webhook_auditor_calls_unanswered:increase1d`

// unansweredRecord takes the answers from what is recorded of the affected webhooks
// since one of their calls failed: an answer counted for the first time since then is
// one as well.
var unansweredRecord = RecordingRule{
	Name: unansweredDay,
	Expr: `
		sum by (type, name) (increase(` + failedClosed + `[1d]) or increase(` + promql.FailedOpen + `[1d])) > 2.5
		and on (type, name) count_over_time((sum by (type, name) (increase(` + failedClosed + `[65m]) or increase(` + promql.FailedOpen + `[65m])) > 0)[1d:1h]) >= 3
		unless on (type, name) increase(` + answers + `[1d]) > 0
		unless on (type, name) (` + answers + ` unless ` + answers + ` offset 1d and on (type, name) ` + affected + ` offset 1d)`,
	Inline: `vector(0) < 0`,
}

// withoutAnswers returns how many calls failed in the last hour where none was
// answered. It is for webhooks that are called too seldom for a ratio. A counter
// that did not exist an hour ago, when its API server was scraped, has counted
// all of them.
func withoutAnswers(by string, failures []string, limit, answers string) string {
	var operands []string
	for _, counter := range failures {
		operands = append(operands, strings.NewReplacer("BY", by, "COUNTER", counter).Replace(`
			(sum by (BY) ((last_over_time(COUNTER[5m]) unless last_over_time(COUNTER[5m] offset 1h) and on (instance) last_over_time(`+scraped+`[5m] offset 1h)) or increase(COUNTER[1h])) >= 3)`)+limit)
	}
	return `(` + strings.Join(operands, " or on ("+by+") ") + `) unless on (` + by + `) (` + answers + `)`
}

// scraped is a series that each API server has, whatever it is asked.
const scraped = promql.StepSeconds + `_count`

// answers are the counters of answers, refusals among them, of the affected
// webhooks, answersBefore what they were an hour ago, and lastAnswers what they
// were last in this hour: that an API server is not scraped for a while does not
// make them none.
const (
	answers       = `cluster_instance_type_name_operation_code:webhook_auditor_calls_answered:last5m`
	lastAnswers   = `cluster_instance_type_name_operation_code:webhook_auditor_calls_answered:last1h`
	answersBefore = `cluster_instance_type_name_operation_code:webhook_auditor_calls_answered:before1h`
)

var answerRecords = []RecordingRule{
	{Name: answers, Expr: `last_over_time(` + counters + `{code="200"}[5m]) or last_over_time(` + intended + `[5m])`},
	{Name: answersBefore, Expr: `(` + answeredIn("[5m] offset 1h") + `) and on (type, name) ` + affected, Inline: answeredIn("[5m] offset 1h")},
	unansweredRecord,
	{Name: lastAnswers, Expr: `last_over_time(` + answers + `[1h])`, Inline: answeredIn("[1h]")},
}

// answeredIn are the counters of answers; a scrape that failed makes no difference.
func answeredIn(window string) string {
	return `last_over_time(` + promql.Requests + `{code="200"}` + window + `) or last_over_time(` + intended + window + `)`
}
