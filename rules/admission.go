package rules

import (
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

func admissionAlerts() []Alert {
	return []Alert{
		{
			Name:        "WebhookRejectionsHigh",
			Asks:        "Which webhooks refuse over three times as many requests as they used to?",
			Severity:    classify.Warning,
			For:         15 * time.Minute,
			KeepFiring:  15 * time.Minute,
			Threshold:   0.1,
			Expr:        withBackend(rejectionsJumped),
			Summary:     `Webhook {{ $labels.name }} suddenly refuses many requests.`,
			Description: `{{ $value | humanizePercentage }} of the requests that ` + admissionWebhook + ` was asked about in the last 15 minutes were refused by it on purpose; when that began it was over three times the share of the hours before. Either its policy or what clients send has changed: a client that was refused sees the reason in the reply, the API server's audit log has it for all of them.` + itsBackend + registration + webhookVariables,
		},
		{
			Name:        "WebhookMatchConditionErrors",
			Asks:        "Whose matchConditions fail again and again?",
			Severity:    classify.Warning,
			For:         5 * time.Minute,
			KeepFiring:  15 * time.Minute,
			Expr:        withBackend(recurring(isUnevaluated)),
			Summary:     `The matchConditions of webhook {{ $labels.name }} cannot be evaluated.`,
			Description: `The API server could not evaluate a matchCondition of ` + admissionWebhook + ` for {{ $value | printf "%.0f" }} requests in the last 15 minutes. With failurePolicy Fail it refuses those requests with code 403, with Ignore it lets them pass without the webhook. Correct the CEL expression: mostly it reads a field that some objects lack, and needs has() or an optional.` + registration + webhookVariables,
		},
		{
			Name:        "WebhookInternalErrors",
			Asks:        "Whose answers can the API server not use, again and again?",
			Severity:    classify.Warning,
			For:         5 * time.Minute,
			KeepFiring:  15 * time.Minute,
			Expr:        withBackend(recurring(isClosed + `, error_type!="calling_webhook_error"`)),
			Summary:     `The API server cannot use what webhook {{ $labels.name }} answers.`,
			Description: `{{ $value | printf "%.0f" }} requests were refused in the last 15 minutes because the API server could not make use of ` + admissionWebhook + `: it answers with a patch that does not apply or that stands where none is allowed, or a dry-run request met it although its sideEffects forbid that. The failurePolicy does not matter here.` + itsBackend + registration + webhookVariables,
		},
	}
}

var notInInventory = Alert{
	Name:        "WebhookNotInInventory",
	Asks:        "Which webhooks are called that a running auditor does not see?",
	Severity:    classify.Info,
	For:         15 * time.Minute,
	KeepFiring:  15 * time.Minute,
	Expr:        uncharted,
	Summary:     `The API server calls webhook {{ $labels.name }}, which no object registers.`,
	Description: `The API server called ` + admissionWebhook + ` {{ $value | printf "%.0f" }} times in the last 15 minutes, but the auditor finds no configuration that registers it. Either a manifest on the control plane's disk does (staticManifestsDir), which no API shows: the series ` + promql.ManifestHashes + ` shows which API servers read any. Or one of the API servers still has a configuration that was deleted, or is not one that the auditor watches.` + variables("NAME", "$labels.name"),
}

// recurring returns how often calls of a webhook failed so in the last 15 minutes,
// where they did in the 15 minutes before as well: often enough to be no
// accident, whatever the traffic and whichever API server it meets.
func recurring(ways string) string {
	return strings.ReplaceAll(`sum by (type, name) (increase(FAILED[15m])) > 0 and on (type, name) sum by (type, name) (increase(FAILED[15m] offset 15m)) > 0`, "FAILED", failures+`{`+ways+`}`)
}

// rejectionsJumped is the share of the calls that the webhook refused on
// purpose, where it is high and over three times that of the six hours before,
// or, where there were no calls in these, of all calls before, and that of each hour of
// the last days: what is refused each morning is ordinary. A webhook that
// was not there before has not changed. Once it fires, what is usual is what was
// usual then: a new share that lasts is no old one.
const rejectionsJumped = refusedShare + ` > $threshold
	and on (type, name) (
		` + refusedShare + ` > on (type, name) 3 * ` + refusedBefore + `
		or on (type, name) ALERTS{alertname="WebhookRejectionsHigh"}
	)`

// The records of webhooks that refuse on purpose, and often enough to matter.
const (
	refused       = `cluster_type_name:webhook_auditor_calls_refused:increase15m`
	refusedShare  = `cluster_type_name:webhook_auditor_calls_refused:ratio_increase15m`
	refusedBefore = `cluster_type_name:webhook_auditor_calls_refused:ratio_before`
)

var refusalRecords = []RecordingRule{
	{Name: refused, Asks: "How many requests did each webhook refuse on purpose in 15m?", Expr: `sum by (type, name) (increase(` + intended + `[15m])) >= 20`},
	{Name: refusedShare, Asks: "Which share of its calls is that?", Expr: refused + ` / on (type, name) (sum by (type, name) (increase(` + promql.Requests + `[15m]) and on (type, name) ` + refused + `) > 0)`},
	{
		Name: refusedBefore, Asks: "Which share did it refuse in the hours before, or since it is called, or at any hour of the last three days?",
		Expr: strings.NewReplacer("REFUSED", refused, "SHARE", refusedShare).Replace(`max by (type, name) (
			label_replace(max_over_time(SHARE[3d:15m] offset 1h), "of", "days", "", "")
			or (sum by (type, name) (increase(` + intended + `[6h])) - on (type, name) REFUSED)
			/ on (type, name) ((` + affectedCalls("6h") + ` - on (type, name) REFUSED / on (type, name) SHARE) >= 20)
			or on (type, name) sum by (type, name) (` + intended + ` offset 15m) / on (type, name) sum by (type, name) (` + promql.Requests + ` offset 15m and on (type, name) REFUSED)
			or on (type, name) 0 * sum by (type, name) (` + promql.Requests + ` offset 6h and on (type, name) REFUSED)
		)`),
	},
}

// uncharted counts the calls to webhooks that a running auditor does not see.
// Those to one that was deleted are in the last 15 minutes for less long than
// the alert waits.
const uncharted = `
	(sum by (type, name) (increase(` + promql.Requests + `[15m])) > 0)
	unless on (type, name) ` + thresholds + `
	and on () ` + auditorSeen
