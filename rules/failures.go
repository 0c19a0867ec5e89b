package rules

import (
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// The words that descriptions share: what breaks, what calls answer, and one command that needs
// kubectl alone.
const (
	webhookNamed = `webhook {{ $labels.name }}`
	conversionOf = `the conversion webhook of the CRD {{ $labels.name }}`
	ofCalls      = `{{ $value | humanizePercentage }} of the calls in 5 minutes (30 between outages, six hours if few)`
	ofPart       = ` Perhaps of one operation or API server.`
	itsBackend   = `{{ with $labels.namespace }} See "` + classify.LookAtBackend + ` -n {{ . }}".{{ else }}` + itsObject + `{{ end }}`
	itsObject    = ` See "kubectl get {{ if eq $labels.type "conversion" }}crds{{ else }}validatingwebhookconfigurations,mutatingwebhookconfigurations{{ end }} -o wide".`
	breakGlass   = ` Else narrow or delete its configuration: see the runbook.`
)

// What facts say, where there are any.
var (
	forReached = says("resource", `, for example for {{ . }}`)
	answering  = says("rejection_code", ` The answer's code is {{ . }}.`)
	ofSome     = says("instance", ` Only some API servers' calls fail, as those of {{ . }}: look at its network.`)
)

// says writes a text for each of the facts that have the label.
func says(label, text string) string {
	return `{{ range $facts }}{{ with .Labels.` + label + ` }}` + text + `{{ end }}{{ end }}`
}

// The variables of the commands in runbooks.
var (
	webhookVariables    = kindVariable + fact("configuration") + variables("KIND CONFIGURATION NAME NAMESPACE", "$kind $configuration $labels.name $labels.namespace")
	failureVariables    = kindVariable + fact("configuration") + fact("instance") + variables("KIND CONFIGURATION NAME NAMESPACE INSTANCE", "$kind $configuration $labels.name $labels.namespace $instance")
	conversionVariables = variables("NAME NAMESPACE", "$labels.name $labels.namespace")
)

// kindVariable is the kind of the object that registers a webhook. A conversion has
// none: the runbooks delete what registers a webhook, and with a CRD all of its
// objects go.
const kindVariable = `{{ $kind := "validatingwebhookconfiguration" }}{{ if eq $labels.type "admit" }}{{ $kind = "mutatingwebhookconfiguration" }}{{ else if eq $labels.type "conversion" }}{{ $kind = "" }}{{ end }}`

// fact sets a variable to the label of one of the facts.
func fact(label string) string {
	return `{{ $` + label + ` := "" }}` + says(label, `{{ $`+label+` = . }}`)
}

// variables are what is pasted before the commands of the runbook: an assignment of each value
// to its name, where no value means anything to a shell.
func variables(names, values string) string {
	return `{{ with printf "` + strings.ReplaceAll(names, " ", "=%s ") + `=%s" ` + values + ` }}{{ if match "^([A-Z]+=[-.:/a-z0-9]*( |$))+$" . }}{{ . }}{{ end }}{{ end }}`
}

// facts is the record of what alerts say of affected webhooks and of those with findings. Each
// series has one more label: a resource that the webhook is called for and the cluster depends
// on, the code of most failed calls, an API server of those of which calls fail while those of
// others do not, the only configuration, with its failurePolicy, and how long calls take, and may.
const facts = `cluster_type_name:webhook_auditor_facts:info`

// timed is a series of the histograms of calls and of conversions.
var timed = `rate(` + promql.WebhookSeconds + `_SERIES[10m]) or ` + asWebhook(`rate(`+promql.ConversionSeconds+`_SERIES[10m])`)

var factsRecord = RecordingRule{
	Name: facts, Asks: "What do alerts say of a webhook?",
	Expr: strings.NewReplacer("FAILED", failedOn("30m"), "CALLED", callsOn("30m"), "SLOW", slowNow,
		"LASTED", strings.ReplaceAll(timed, "SERIES", "sum"), "MADE", strings.ReplaceAll(timed, "SERIES", "count"),
		"INFO", `group by (type, name, configuration, failure_policy) (last_over_time(webhook_auditor_webhook_info[5m]) and on (type, name) `+affected+`)`).Replace(`
		topk by (type, name) (1, group by (type, name, resource) (last_over_time(webhook_auditor_webhook_reach{` + vitalClasses + `}[5m]) and on (type, name) (` + affected + ` or ` + registered + `)))
		or topk by (type, name) (1, sum by (type, name, rejection_code) (increase(` + failedClosed + `[30m])) > 0)
		or group by (type, name, instance) (FAILED)
		unless on (type, name) (count by (type, name) (sum by (type, name, instance) (FAILED)) == count by (type, name) (sum by (type, name, instance) (CALLED)))
		or INFO unless on (type, name) count by (type, name) (INFO) > 1
		or label_replace(max by (type, name) (` + thresholds + ` and on (type, name) SLOW), "takes", "threshold", "", "")
		or label_replace(
			sum by (type, name) (LASTED) / on (type, name) (sum by (type, name) (MADE) and on (type, name) SLOW),
			"takes", "average of 10 minutes", "", "")`),
}

// warned are the webhooks that alerts which say more are about: how many calls fail, or hang.
const warned = `ALERTS{alertname=~"WebhookFailingClosed|WebhookCallsFailing|WebhookFailingOpen|WebhookCriticalResourceSlow"}`

// unlessHanging leaves out the webhooks that page as requests wait for them until the
// timeout: the page says more.
const unlessHanging = ` unless on (type, name) ALERTS{alertname="WebhookCriticalResourceSlow", alertstate="firing"}`

var failureAlerts = []Alert{
	{
		Name: "WebhookFailingClosed", Asks: "Which outages refuse requests that the cluster depends on, or may?",
		Severity: classify.Critical, For: 30 * time.Second,
		Expr:    withBackend(refusing(burning) + ` > $WebhookFailingClosed unless on (type, name) ` + harmless),
		Summary: `Requests that the cluster depends on are refused because calls to webhook {{ $labels.name }} fail.`,
		Description: ofCalls + ` to ` + webhookNamed + ` fail.` + ofPart + ` The API server refuses the requests` + forReached + `.` + answering + ofSome +
			itsBackend + breakGlass,
		Variables: failureVariables,
	},
	{
		Name: "WebhookCallsFailing", Asks: "Which webhooks fail so often that requests are refused?",
		Severity: classify.Warning, Enhancement: classify.Critical, For: 30 * time.Second,
		Expr:    withBackend(refusing(worrying)),
		Summary: `Requests are refused because calls to webhook {{ $labels.name }} fail.`,
		Description: ofCalls + ` to ` + webhookNamed + ` fail.` + ofPart + ` The API server refuses the requests` + forReached + `.` + answering + ofSome +
			itsBackend,
		Variables: failureVariables,
	},
	{
		Name: "WebhookFailingOpen", Asks: "Which webhooks fail so often that requests pass without them?",
		Severity: classify.Warning, Enhancement: classify.Critical, For: 30 * time.Second,
		Expr:    withBackend(passing(worrying) + unlessHanging),
		Summary: `Requests pass unchecked because calls to webhook {{ $labels.name }} fail.`,
		Description: ofCalls + ` to ` + webhookNamed + ` fail.` + ofPart + ` Requests pass without its checks or changes (failurePolicy Ignore)` + forReached + `.` + answering + ofSome +
			itsBackend,
		Variables: failureVariables,
	},
	{
		Name: "WebhookAllCallsFailing", Asks: "Which webhooks are called seldom, and answer none of the calls?",
		Severity: classify.Warning, Enhancement: classify.Critical, For: 15 * time.Minute,
		KeepFiring: 5 * time.Minute,
		Expr: withBackend(`
			(sum by (type, name) (` + unanswered + `{` + isAdmission + `}) or on (type, name) ` + unansweredDay + `)
			unless on (type, name) (` + warned + ` and on (type, name) ` + failedIn("30m") + ` >= 30)`),
		Summary:     `Webhook {{ $labels.name }} answers none of its calls.`,
		Description: `{{ $value | printf "%.0f" }} calls to ` + webhookNamed + ` in an hour, or in a day if there are few, failed. None was answered since the first of them: nothing shows that it works at all.` + answering + ofSome + itsBackend,
		Variables:   webhookVariables,
	},
	{
		Name: "WebhookNoneReachable", Asks: "Which API servers have reached no webhook in three of five minutes?",
		Severity: classify.Critical, For: time.Minute, KeepFiring: 5 * time.Minute,
		Expr: strings.NewReplacer("CUTOFF", cutOff, "NONE", noneReachable, "AGAIN", endedTwice(noneReachable), "FIRES", `ALERTS{alertname="WebhookNoneReachable", alertstate="firing"}`).Replace(`
			CUTOFF and on (instance) count_over_time(NONE[5m:1m]) >= 3 and on (instance) NONE
			or on (instance) (max_over_time(NONE[15m]) and on (instance) AGAIN and on (instance) FIRES)`),
		Summary:     `API server {{ $labels.instance }} reaches none of its webhooks.`,
		Description: `{{ $value | humanizePercentage }} of the calls of API server {{ $labels.instance }} to webhooks failed in 2 of the last 15 minutes{{ if $everywhere }}. No API server of the cluster reaches any webhook. Look at the network that they share{{ else }}. The backends are not to blame: other API servers reach them, or several fail at once. Look at the network of this API server{{ end }}: konnectivity, firewalls, network policies, DNS. Its clients' requests are refused where the failurePolicy is Fail. See "kubectl -n kube-system get pods -l k8s-app=konnectivity-agent -o wide".`,
		Variables:   variables("INSTANCE", "$labels.instance"),
	},
}

// The records of failures where no call was answered, of webhooks that are called too seldom for a ratio.
const (
	unanswered    = `cluster_type_name_failure:webhook_auditor_calls_unanswered:increase1h`
	unansweredDay = `cluster_type_name:webhook_auditor_calls_unanswered:increase1d`
)

// scraped is a series that each API server has, whatever it is asked.
const scraped = promql.StepSeconds + `_count`

// answers is the record of the counters of answers, refusals among them, of the affected webhooks,
// answersBefore are those of an hour ago: one that did not exist then has counted its answers since.
const answers = `cluster_instance_type_name_operation_code:webhook_auditor_calls_answered:last5m`

var answersBefore = `(
	last_over_time(` + promql.Requests + `{code="200"}[5m] offset 1h) or last_over_time(` + intended + `[5m] offset 1h)
	or ` + asCalls(`last_over_time(`+promql.ConversionSeconds+`_count{succeeded="true"}[5m] offset 1h)`) + `
)`

var answerRecords = []RecordingRule{
	{
		Name: answers, Asks: "What did each API server last count of the answers of affected webhooks?",
		Expr: `last_over_time(` + counters + `{code="200"}[5m]) or last_over_time(` + counters + `{succeeded="true"}[5m]) or last_over_time(` + intended + `[5m])`,
	},
	{
		// A counter of failures that did not exist an hour ago, when its API server was
		// scraped and the rules evaluated, has counted all of them. Those of one that reaches no webhook are its own.
		Name: unanswered, Asks: "How many calls failed in the last hour, of webhooks that answered none?",
		Expr: `
			sum by (type, name, failure) (
				(` + failures + ` unless ` + failures + ` offset 1h and on (instance) last_over_time(` + scraped + `[5m] offset 1h) and on () last_over_time(` + watching + `[15m] offset 1h))
				or increase(` + failures + `[1h])
				unless on (instance, type, name) ` + excluded + `
			) >= 3
			unless on (type, name) (increase(` + answers + `[1h]) > 0 or last_over_time(` + answers + `[1h]) unless ` + answersBefore + `)`,
	},
	{
		// An answer counted for the first time since the webhook is affected is one as well.
		Name: unansweredDay, Asks: "How many calls failed in the last day, of webhooks that answered none?",
		Expr: strings.ReplaceAll(`
			sum by (type, name) (increase(FAILED[1d]) unless on (instance, type, name) `+excluded+`) > 2.5
			and on (type, name) (
				count_over_time((sum by (type, name) (increase(FAILED[65m])) > 0)[1d:1h]) >= 3
				or on (type, name) sum by (type, name) (increase(FAILED[1d])) >= 20
			)
			unless on (type, name) increase(`+answers+`[1d]) > 0
			unless on (type, name) (`+answers+` unless `+answers+` offset 1d and on (type, name) `+affected+` offset 1d)`, "FAILED", failures+`{`+isAdmission+`}`),
	},
}
