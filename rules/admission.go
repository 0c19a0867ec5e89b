package rules

import (
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

var admissionAlerts = []Alert{
	{
		Name: "WebhookRejectionsHigh", Asks: "Which webhooks refuse over three times as many requests as they used to?",
		Severity: classify.Warning, For: time.Minute, KeepFiring: 15 * time.Minute,
		Expr:        withBackend(rejectionsJumped),
		Summary:     `Webhook {{ $labels.name }} suddenly refuses many requests.`,
		Description: `{{ $value | humanizePercentage }} of the requests to ` + webhookNamed + ` in 15 minutes are refused on purpose. That is over three times its usual share: its policy has changed, or the requests have. Clients see the reason in the reply.` + itsBackend,
		Variables:   webhookVariables,
	},
	{
		Name: "WebhookMatchConditionErrors", Asks: "Whose matchConditions fail again and again?",
		Severity: classify.Warning, For: time.Minute, KeepFiring: 15 * time.Minute,
		Expr:        withBackend(`max by (type, name) (` + recurring + `{` + isUnevaluated + `})`),
		Summary:     `The matchConditions of webhook {{ $labels.name }} cannot be evaluated.`,
		Description: `The matchConditions of ` + webhookNamed + ` fail. {{ $value | printf "%.0f" }} requests met that in the last 15 minutes.` + says("failure_policy", `{{ if eq . "Fail" }} Those are refused with code 403.{{ else }} Those pass without the webhook.{{ end }}`) + ` Mostly the expression reads a field that some objects lack: it needs has() or an optional.` + itsObject,
		Variables:   webhookVariables,
	},
	{
		Name: "WebhookInternalErrors", Asks: "Whose answers can the API server not use, again and again?",
		Severity: classify.Warning, For: time.Minute, KeepFiring: 15 * time.Minute,
		Expr:        withBackend(`max by (type, name) (` + recurring + `{` + isClosed + `})`),
		Summary:     `The API server cannot use the answers of webhook {{ $labels.name }}.`,
		Description: `The API server cannot use the answers of ` + webhookNamed + `. In the last 15 minutes it refused {{ $value | printf "%.0f" }} requests: a patch does not apply, or sideEffects forbid a dry run. The failurePolicy does not matter.` + answering + itsBackend,
		Variables:   webhookVariables,
	},
}

var notInInventory = Alert{
	Name: "WebhookNotInInventory", Asks: "Which webhooks are called that a running auditor does not see?",
	Severity: classify.Info, For: 15 * time.Minute, KeepFiring: 15 * time.Minute,
	Expr:        uncharted,
	Summary:     `The API server calls webhook {{ $labels.name }}, which no object registers.`,
	Description: `The API server called ` + webhookNamed + ` {{ $value | printf "%.0f" }} times in 15 minutes, and no object registers it. Either a manifest on the control plane's disk does, which no API shows, or an API server still has a deleted configuration.` + itsObject,
	Variables:   variables("NAME", "$labels.name"),
}

// recurring are failures of which a webhook made some in the 15 minutes before as well: they are no
// accident, whatever the traffic and whichever API server it meets. It begins
// while they go on: within three minutes of the last one, or within five where they are seldom,
// as else no two evaluations in turn would see one at an interval of two minutes.
const recurring = `cluster_type_name_failure:webhook_auditor_failed:increase15m_recurring`

var recurringRecord = RecordingRule{
	Name: recurring, Asks: "How often did matchConditions fail, or answers that are none, in 15m, where they do again and again?",
	Expr: strings.NewReplacer("BY", "(type, name, failure)", "FAILED", failures+`{failure=~"closed|unevaluated", error_type!="calling_webhook_error"}`).Replace(`
		sum by BY (increase(FAILED[15m])) > 0
		and on BY sum by BY (increase(FAILED[15m] offset 15m)) > 0
		and on BY sum by BY (increase(FAILED[5m]) and changes(FAILED[15m]) < 6 or increase(FAILED[3m])) > 0`),
}

// rejectionsJumped is the share of the calls that the webhook refuses on purpose, where it has
// been large for 15 minutes and still is: what has ended raises nothing.
const rejectionsJumped = refusedShare + `
	and on (type, name) count_over_time(` + refusalsJumped + `[15m:1m]) >= 13
	and on (type, name) sum by (type, name) (increase(` + intended + `[3m])) > on (type, name) 0.15 * ` + refused

// The records of webhooks that refuse on purpose, and often enough to matter.
const (
	refused       = `cluster_type_name:webhook_auditor_calls_refused:increase15m`
	refusedShare  = `cluster_type_name:webhook_auditor_calls_refused:ratio_increase15m`
	refusedBefore = `cluster_type_name:webhook_auditor_calls_refused:ratio_before`
	// refusalsJumped is that share where it is high and over three times that of all calls before,
	// and that of each hour of the last days: what is refused each morning is ordinary. A webhook
	// that was not there an hour ago has not changed. Then, what is usual is what was usual before: a
	// new share that lasts is no old one.
	refusalsJumped = `cluster_type_name:webhook_auditor_calls_refused:ratio_jumped`
)

var refusalRecords = []RecordingRule{
	{Name: refused, Asks: "How many requests did each webhook refuse on purpose in 15m?", Expr: `sum by (type, name) (increase(` + intended + `[15m])) >= 20`},
	{Name: refusedShare, Asks: "Which share of its calls is that?", Expr: refused + ` / on (type, name) (sum by (type, name) (increase(` + promql.Requests + `[15m]) and on (type, name) ` + refused + `) > 0)`},
	{
		Name: refusedBefore, Asks: "Which share did it refuse since it is called, or at any hour of the last three days?",
		Expr: strings.NewReplacer("REFUSED", refused, "SHARE", refusedShare).Replace(`max by (type, name) (
			label_replace(max_over_time(SHARE[3d:15m] offset 1h), "of", "days", "", "")
			or sum by (type, name) (` + intended + ` offset 15m) / on (type, name) sum by (type, name) (` + promql.Requests + ` offset 15m and on (type, name) REFUSED)
			or on (type, name) 0 * sum by (type, name) (` + promql.Requests + ` offset 1h and on (type, name) REFUSED)
		)`),
	},
	{
		Name: refusalsJumped, Asks: "Where is the share over the threshold, and over three times what it was?",
		Expr: refusedShare + ` > $WebhookRejectionsHigh and on (type, name) (` + refusedShare + ` > on (type, name) 3 * ` + refusedBefore + ` or on (type, name) ` + refusalsJumped + `)`,
	},
}

// uncharted counts the calls to webhooks that a running auditor does not see. Those to one that was
// deleted are in the last 15 minutes for less long than the alert waits.
const uncharted = `
	(sum by (type, name) (increase(` + promql.Requests + `[15m])) > 0)
	unless on (type, name) ` + thresholds + `
	and on () ` + auditorSeen
