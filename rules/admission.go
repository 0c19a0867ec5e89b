package rules

import (
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// The words that descriptions share.
const (
	slowCalls        = `{{ $value | humanizePercentage }} of the calls to ` + admissionWebhook + ` take longer than {{ $labels.threshold }} s`
	admissionWebhook = `the {{ if eq $labels.type "admit" }}mutating{{ else }}{{ $labels.type }}{{ end }} webhook {{ $labels.name }}`
	conversionOf     = `the conversion webhook of the CRD {{ $labels.name }}`
	itsBackend       = `{{ with $namespace }}{{ if match "^[-a-z0-9]+$" . }} Its backend is in namespace {{ . }}: start with "kubectl -n {{ . }} get services,endpointslices,pods".{{ end }}{{ end }}`
	registration     = `{{ with $registered }} It is registered by the {{ if eq $labels.type "admit" }}mutating{{ else }}validating{{ end }}webhookconfiguration{{ . }}.{{ end }}`
	breakGlass       = ` break the glass: save the configuration with "kubectl get -o yaml" and delete it, which always works, or narrow it. The runbook has the commands, and those that restore it.`
)

// backendByName selects by what the API server's series tell of a webhook.
const backendByName = `webhook_auditor_webhook_failure_impact{name="$name", type="$type"}`

// matchConditionErrors are errors of webhooks; policies have the same series.
const matchConditionErrors = `apiserver_admission_match_condition_evaluation_errors_total{kind="webhook"}`

var failureAlerts = []Alert{
	{
		Name:        "WebhookFailingClosed",
		Severity:    classify.Critical,
		For:         5 * time.Minute,
		Expr:        admission.failing(failedClosed),
		Backend:     backendByName,
		Summary:     `Requests are refused because calls to webhook {{ $labels.name }} fail.`,
		Description: `{{ $value | humanizePercentage }} of the calls to ` + admissionWebhook + ` fail, and the API server refuses those requests (failurePolicy Fail).` + itsBackend + registration + ` If it cannot be mended at once,` + breakGlass,
	},
	{
		Name:        "WebhookFailingOpen",
		Severity:    classify.Warning,
		Enhancement: classify.Critical,
		For:         5 * time.Minute,
		Expr:        admission.failing(failedOpen),
		Backend:     backendByName,
		Summary:     `Requests pass unchecked because calls to webhook {{ $labels.name }} fail.`,
		Description: `{{ $value | humanizePercentage }} of the calls to ` + admissionWebhook + ` fail, and the API server lets those requests pass without it (failurePolicy Ignore): what it enforces or injects is missing from them.` + itsBackend + registration,
	},
	{
		Name:        "WebhookAllCallsFailing",
		Severity:    classify.Warning,
		Enhancement: classify.Critical,
		For:         15 * time.Minute,
		Expr:        admission.silent(),
		Backend:     backendByName,
		Summary:     `The seldom called webhook {{ $labels.name }} answers none of its calls.`,
		Description: `All of the last {{ $value | printf "%.0f" }} calls to ` + admissionWebhook + ` failed. It is called too seldom for a failure rate, and nothing shows that it works at all.` + itsBackend + registration,
	},
}

// calls15m is what the alerts share: how often each webhook was called.
const calls15m = `webhook:calls:increase15m`

var admissionShared = []Shared{{calls15m, `sum by (name, type) (increase(` + requests + `[15m]) > 0)`}}

var admissionAlerts = []Alert{
	{
		Name:        "WebhookRejectionsHigh",
		Severity:    classify.Warning,
		For:         15 * time.Minute,
		Expr:        rejectionsJumped,
		Backend:     backendByName,
		Summary:     `Webhook {{ $labels.name }} suddenly refuses many requests.`,
		Description: `{{ $value | humanizePercentage }} of the requests that ` + admissionWebhook + ` was asked about in the last 15 minutes were refused by it on purpose, over three times the share of the six hours before. Either its policy or what clients send has changed: a client that was refused sees the reason in the reply, everybody else in the API server's audit log.` + itsBackend + registration,
	},
	{
		Name:        "WebhookMatchConditionErrors",
		Severity:    classify.Warning,
		For:         5 * time.Minute,
		Expr:        `sum by (name, type) (` + sustained(matchConditionErrors) + `)`,
		Backend:     backendByName,
		Summary:     `The matchConditions of webhook {{ $labels.name }} cannot be evaluated.`,
		Description: `The API server could not evaluate a matchCondition of ` + admissionWebhook + ` for {{ $value | printf "%.0f" }} requests in the last 15 minutes. With failurePolicy Fail it refuses those requests with code 403, with Ignore it lets them pass without the webhook, and no other series counts them. Mend the CEL expression: mostly it reads a field that some objects lack, and needs has() or an optional.` + registration,
	},
	{
		Name:        "WebhookInternalErrors",
		Severity:    classify.Warning,
		For:         5 * time.Minute,
		Expr:        `sum by (name, type) (` + sustained(rejections+`{error_type="apiserver_internal_error"}`) + `)`,
		Backend:     backendByName,
		Summary:     `The API server cannot use what webhook {{ $labels.name }} answers.`,
		Description: `{{ $value | printf "%.0f" }} requests were refused in the last 15 minutes because the API server could not make use of ` + admissionWebhook + `: it answers with a patch that does not apply or that stands where none is allowed, or a dry-run request met it although its sideEffects forbid that. The failurePolicy does not matter here.` + itsBackend + registration,
	},
	{
		Name:        "WebhookNotInInventory",
		Severity:    classify.Info,
		For:         15 * time.Minute,
		Expr:        uncharted,
		Summary:     `The API server calls webhook {{ $labels.name }}, which no object registers.`,
		Description: `The API server called ` + admissionWebhook + ` {{ $value | printf "%.0f" }} times in the last 15 minutes, but the auditor finds no configuration that registers it. Either a manifest on the control plane's disk does (staticManifestsDir), which no API shows: the series apiserver_manifest_admission_config_controller_last_config_info tells which API servers read any. Or one of the API servers still has a configuration that was deleted, or is not one that the auditor watches.`,
	},
}

// rejectionsJumped is the share of the calls that the webhook refused on
// purpose, where it is high and over three times that of the six hours before.
// A webhook that was not there before has not changed.
const rejectionsJumped = `
	(sum by (name, type) (increase(` + rejections + `{error_type="no_error"}[15m])) >= 20)
	/ ` + calls15m + ` > 0.1
	> on (name, type) 3 * (
		sum by (name, type) (increase(` + rejections + `{error_type="no_error"}[6h] offset 15m))
		/ sum by (name, type) (increase(` + requests + `[6h] offset 15m))
		or on (name, type) 0 * sum by (name, type) (` + requests + ` offset 6h)
	)`

// uncharted counts the calls to webhooks that a running auditor does not see.
// Those to one that was deleted are in the last 15 minutes for less long than
// the alert waits.
const uncharted = `
	` + calls15m + `
	unless on (name, type) last_over_time(webhook_auditor_webhook_info[5m])
	and on () last_over_time(webhook_auditor_snapshot_timestamp_seconds[5m])`
