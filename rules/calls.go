package rules

import (
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// The API server's series of calls. A call that fails is counted by what the
// API server made of the request: it was refused, or let through. A request
// whose matchConditions cannot be evaluated is no call; whether it is refused
// depends on the failurePolicy. Conversions are counted on the series of real
// calls: apiserver_conversion_webhook_request_total counts no-ops too, and would
// hide half of a total outage.
const (
	requests             = `apiserver_admission_webhook_request_total`
	rejections           = `apiserver_admission_webhook_rejection_count`
	admissionSeconds     = `apiserver_admission_webhook_admission_duration_seconds`
	failedOpen           = `apiserver_admission_webhook_fail_open_count`
	matchConditionErrors = `apiserver_admission_match_condition_evaluation_errors_total{kind="webhook"}`
	converted            = `apiserver_crd_conversion_webhook_duration_seconds`
	unconverted          = converted + `_count{succeeded="false"}`

	// failedClosed is all that is no refusal on purpose, so that kinds of errors
	// which the API server does not have yet count as well. intended are these.
	failedClosed = rejections + `{error_type!="no_error"}`
	intended     = rejections + `{error_type="no_error"}`
)

// The records of how often each webhook was called in six hours, and of whether any
// was, which shows since when there are records. Only the calls of the affected
// webhooks are counted in other windows.
const (
	calls6h  = `cluster_type_name:webhook_auditor_calls:increase6h`
	recorded = `cluster:webhook_auditor_calls:group`
)

var callsRecords = []RecordingRule{
	{Name: calls6h, Expr: calls("6h")},
	{Name: recorded, Expr: `group(` + calls6h + `)`},
}

// calls counts the calls of each webhook in the window.
func calls(window string) string {
	return strings.ReplaceAll(`
		sum by (type, name) (increase(`+requests+`[WINDOW]) or increase(`+matchConditionErrors+`[WINDOW])) > 0
		or `+asWebhook(`sum by (crd_name) (increase(`+converted+`_count[WINDOW])) > 0`), "WINDOW", window)
}

// affected are the webhooks that alerts may be about: those of which calls
// failed or were slow within six hours, or which ever refused a request. They
// are few, so what is known of all webhooks is looked up once for these, and the
// alerts read little.
const affected = `cluster_type_name:webhook_auditor_webhook_affected:group`

// counters are the counters of the calls of these, from when the first one failed:
// reading those of all webhooks costs the same again for each window. An alert
// waits for failures in six minutes or in three slots of five, so that five minutes
// of calls are known by then, and at least half of the last 30.
const counters = `cluster_instance_type_name_operation_code:webhook_auditor_calls_affected:last5m`

// affectedCalls are how often each of these was called in the window.
func affectedCalls(window string) string {
	return `cluster_type_name:webhook_auditor_calls_affected:increase` + window
}

// affectedCallsRecord counts them. Where the alerts were installed within the
// window, it counts all calls since the start of the API servers: what failed before
// must not be compared with the few calls that are recorded.
func affectedCallsRecord(window string) RecordingRule {
	return RecordingRule{
		Name: affectedCalls(window),
		Expr: strings.ReplaceAll(`max by (type, name) (
			label_replace(sum by (type, name) (`+counters+`) unless on () group(last_over_time(`+recorded+`[1d] offset WINDOW)), "since", "start", "", "")
			or sum by (type, name) (increase(`+counters+`[WINDOW]))
		) > 0`, "WINDOW", window),
		Inline: calls(window),
	}
}

func affectedRecords(failures []failure) []RecordingRule {
	operands := []string{
		`last_over_time(` + rejections + `[15m])`, `last_over_time(` + failedOpen + `[15m])`, asWebhook(`last_over_time(` + converted + `_count[15m])`),
		`last_over_time(` + slowCount + `[6h])`,
	}
	for _, f := range failures {
		operands = append(operands, f.on("increase6h"))
	}
	out := []RecordingRule{{Name: affected, Expr: `group by (type, name) (` + strings.Join(operands, " or ") + `)`}}
	out = append(out, RecordingRule{Name: counters, Expr: `(
			last_over_time(` + requests + `[5m]) or last_over_time(` + matchConditionErrors + `[5m])
			or ` + asWebhook(`last_over_time(`+converted+`_count[5m])`) + `
		) and on (type, name) ` + affected})
	for _, window := range []string{"2m", "5m", "30m"} {
		out = append(out, affectedCallsRecord(window))
	}
	out = append(out, RecordingRule{Name: affectedCalls("6h"), Expr: calls6h + ` and on (type, name) ` + affected, Inline: calls("6h")})
	return append(out, affectedInventory...)
}

// A failure is a way in which calls fail, and how the API server counts it.
type failure struct {
	// metric is the middle of the records' names.
	metric string
	// increase counts the failures of each webhook on each API server in WINDOW.
	increase string
}

func admissionFailure(metric, counter string) failure {
	return failure{metric, `sum by (instance, type, name) (increase(` + counter + `[WINDOW])) > 0`}
}

// The failures.
var (
	closed      = admissionFailure("webhook_auditor_calls_failed_closed", failedClosed)
	open        = admissionFailure("webhook_auditor_calls_failed_open", failedOpen)
	unevaluated = admissionFailure("webhook_auditor_match_condition_errors", matchConditionErrors)
	conversion  = failure{
		"webhook_auditor_conversions_failed",
		asWebhook(`sum by (instance, crd_name) (increase(` + unconverted + `[WINDOW])) > 0`),
	}
)

// on is a record of the failures on each API server.
func (f failure) on(operations string) string {
	return `cluster_instance_type_name:` + f.metric + `:` + operations
}

// sum is the failures of each webhook, without those of API servers that reach no
// webhook at all: these have an alert of their own.
func (f failure) sum(operations string) string {
	return `sum by (type, name) (` + f.on(operations) + ` unless on (instance) ` + excluded + `)`
}

// most is like sum, of the API server that has most.
func (f failure) most(operations string) string {
	return `max by (type, name) (` + f.on(operations) + ` unless on (instance) ` + excluded + `)`
}

// burning is the record of the share of the calls that fail, where it pages.
func (f failure) burning() string { return `cluster_type_name:` + f.metric + `:ratio_burning` }

// increases are the records that cutOff and burning need.
func (f failure) increases() []RecordingRule {
	var out []RecordingRule
	for _, window := range []string{"2m", "5m", "15m", "30m", "75m", "6h"} {
		out = append(out, RecordingRule{Name: f.on("increase" + window), Expr: strings.ReplaceAll(f.increase, "WINDOW", window)})
	}
	return append(
		out,
		RecordingRule{Name: f.on("minutes30m"), Expr: `count_over_time((` + strings.ReplaceAll(f.increase, "WINDOW", "3m") + `)[30m:1m])`},
		RecordingRule{Name: f.on("slots6h"), Expr: `count_over_time((` + strings.ReplaceAll(f.increase, "WINDOW", "6m") + `)[6h:5m])`},
	)
}

// recovered selects the webhooks of which at least 20 calls were answered and
// none failed in the last two minutes, or in the last 15, if these are answered
// more seldom, or in the last five, if the auditor found their backend down and no
// longer does: that has paged, and what failed until then must not page again.
func (f failure) recovered() string {
	return `(
			` + affectedCalls("2m") + ` >= 20 unless on (type, name) group by (type, name) (` + f.on("increase2m") + `)
			or on (type, name)
			` + affectedCalls("30m") + ` - on (type, name) ` + f.sum("increase30m") + ` >= 20 unless on (type, name) group by (type, name) (` + f.on("increase15m") + `)
			or on (type, name)
			` + backendRepaired + ` unless on (type, name) group by (type, name) (` + f.on("increase5m") + `)
		)`
}

// burn is the share of the calls that fail where it pages, by two windows.
//
// The short one is for webhooks that are called all the time: over a fifth in
// the last 5 minutes, and failures in 6 of the last 30 minutes. A failure is
// seen for 3 minutes, so an outage of two minutes shows in 5, and nothing but
// the failures must go on for the alert to fire: neither a failed scrape nor a
// minute without calls starts it anew.
//
// The long one is for webhooks that are called now and then: over 6 % in 6 hours,
// and failures in 3 of their slots of 5 minutes. It lasts until calls are
// answered for half an hour, or 20 of them and none failed for a quarter, or
// until the webhook is not called any more.
//
// Either ends within two minutes where enough calls are answered.
func (f failure) burn() RecordingRule {
	short := `(
			clamp_max(` + f.sum("increase5m") + ` / on (type, name) ` + affectedCalls("5m") + `, 1) > 0.2
			and on (type, name) ` + f.most("minutes30m") + ` >= 6
			and on (type, name) ` + f.sum("increase30m") + ` >= 5
		)`
	long := `(
			clamp_max(` + f.sum("increase6h") + ` / on (type, name) ` + affectedCalls("6h") + `, 1) >= 0.06
			and on (type, name) ` + f.most("slots6h") + ` >= 3
			and on (type, name) ` + f.sum("increase6h") + ` >= 5
			and on (type, name) ` + f.sum("increase75m") + ` > 0
			unless on (type, name) (` + affectedCalls("30m") + ` >= 5 unless on (type, name) ` + f.sum("increase30m") + ` / on (type, name) ` + affectedCalls("30m") + ` > 0.03)
		)`
	return RecordingRule{Name: f.burning(), Expr: `(` + short + ` or on (type, name) ` + long + `) unless on (type, name) ` + f.recovered()}
}

// failing is the share of the calls that fail where it is worth a warning: where
// it pages, and where it is over the alert's threshold for a while, be it in 10
// of the last 30 minutes or in 3 slots of 5 minutes.
func (f failure) failing() string {
	return `(` + f.burning() + ` or on (type, name) (
			(
				clamp_max(` + f.sum("increase5m") + ` / on (type, name) ` + affectedCalls("5m") + `, 1) > $threshold
				and on (type, name) ` + f.most("minutes30m") + ` >= 10
				or on (type, name)
				clamp_max(` + f.sum("increase30m") + ` / on (type, name) ` + affectedCalls("30m") + `, 1) > $threshold
				and on (type, name) ` + f.most("slots6h") + ` >= 3
			)
			and on (type, name) ` + f.sum("increase30m") + ` >= 3
			unless on (type, name) ` + f.recovered() + `
		))`
}

// The records of API servers that reach no webhook at all.
const (
	noneReachable = `cluster_instance:webhook_auditor_calls_failed:ratio_all`
	cutOff        = `cluster_instance:webhook_auditor_calls_failed:max5m`
	// excluded are the API servers whose failures are none of single webhooks.
	excluded = `cluster_instance:webhook_auditor_calls_failed:group`
)

// unreached counts the calls that failed on each API server.
var unreached = `(` + closed.on("increase2m") + ` or ` + open.on("increase2m") + `)`

// backendDown are the webhooks that no API server can call, by what the auditor
// knows of their backends.
const backendDown = `(
	max by (type, name) (last_over_time(webhook_auditor_webhook_backend_ready[5m])) == 0
	or on (type, name) group by (type, name) (last_over_time(webhook_auditor_finding{check=~"backend-unreachable|ca-bundle-invalid|ca-bundle-missing|serving-certificate"}[5m]))
)`

// backendRepaired are the webhooks whose backends the auditor found down within
// what the windows hold, and no longer does.
var backendRepaired = strings.ReplaceAll(`(
				group by (type, name) (last_over_time(webhook_auditor_finding{check=~"CHECKS"}[75m]))
				unless on (type, name) group by (type, name) (last_over_time(webhook_auditor_finding{check=~"CHECKS"}[5m]))
				and on () `+auditorSeen+`
			)`, "CHECKS", strings.Join(pagingBackendChecks(), "|"))

// pagingBackendChecks find that a backend cannot be called, and page.
func pagingBackendChecks() []string {
	var out []string
	for _, c := range classify.Checks {
		if c.NonCriticalAlert != "" {
			out = append(out, c.Name)
		}
	}
	return out
}

// cutOffRecords select the API servers of which all calls fail, while other API
// servers reach two of the webhooks, or where the webhooks have two backends that
// are not known to be down: it is not for a backend that they cannot be called.
var cutOffRecords = []RecordingRule{
	{
		Name: noneReachable,
		Expr: `
			clamp_max(sum by (instance) (` + unreached + `) / on (instance) sum by (instance) (increase(` + requests + `[2m])), 1) > 0.95
			and on (instance) sum by (instance) (` + closed.on("increase5m") + ` or ` + open.on("increase5m") + `) >= 5
			and on (instance) (
				count by (instance) (` + unreached + ` and on (type, name) (
					` + affectedCalls("2m") + ` - on (type, name) sum by (type, name) (` + unreached + `) > on (type, name) 0.1 * ` + affectedCalls("2m") + `
				)) >= 2
				or on (instance)
				count by (instance) (group by (instance, namespace) ((` + unreached + ` unless on (type, name) ` + backendDown + `) * on (type, name) group_left (namespace) ` + backends + `)) >= 2
			)`,
	},
	{Name: cutOff, Expr: `max_over_time(` + noneReachable + `[5m:1m])`},
	// What an API server counted while it was cut off is in the windows for long
	// after that. It is left out until calls of this API server fail again, which
	// may be for another reason.
	// Written out a dozen times in each alert this would cost more than it saves.
	{
		Name: excluded,
		Expr: `
			group by (instance) (` + cutOff + `)
			or on (instance)
			` + excluded + ` and on (instance) (` + anyOn("increase75m") + `) unless on (instance) (` + anyOn("increase2m") + `)`,
		Inline: `vector(0) < 0`,
	},
}

// anyOn are the failures on each API server, of whatever kind.
func anyOn(operations string) string {
	return closed.on(operations) + ` or ` + open.on(operations) + ` or ` + unevaluated.on(operations) + ` or ` + conversion.on(operations)
}

// historyGroup reads what was counted in the last hours, which changes little
// within minutes.
func historyGroup() Group {
	return Group{
		Name:     "webhook-auditor-history",
		Interval: 3 * time.Minute,
		RecordingRules: slices.Concat(
			callsRecords,
			[]RecordingRule{
				remembered(failsClosed, `webhook_auditor_webhook_failure_impact{impact="closed"}`, `group by (type, name) (SERIES)`),
			},
			refusalRecords, answerRecords,
		),
		Alerts: []Alert{notInInventory},
	}
}

// callsGroup has all alerts on calls in one group, as they share what they read.
func callsGroup() Group {
	g := Group{Name: "webhook-auditor-calls", RecordingRules: slices.Clone(inventoryRecords)}
	failures := []failure{closed, open, unevaluated, conversion}
	for _, f := range failures {
		g.RecordingRules = append(g.RecordingRules, f.increases()...)
	}
	g.RecordingRules = append(g.RecordingRules, affectedRecords(failures)...)
	g.RecordingRules = append(g.RecordingRules, cutOffRecords...)
	for _, f := range failures {
		g.RecordingRules = append(g.RecordingRules, f.burn())
	}
	g.RecordingRules = append(g.RecordingRules, slowLongRecord)
	g.Alerts = slices.Concat(failureAlerts(), latencyAlerts(), admissionAlerts(), conversionAlerts())
	return g
}
