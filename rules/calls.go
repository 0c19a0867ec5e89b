package rules

import (
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// The API server's series of calls. A call that fails is counted by what the API server made of the
// request: it was refused, or let through. A request whose matchConditions cannot be evaluated is no call;
// whether it is refused depends on the failurePolicy. Conversions are counted on the series of real calls:
// apiserver_conversion_webhook_request_total counts no-ops too, and would hide half of a total outage.
const (
	matchConditionErrors = promql.MatchConditionErrors + `{kind="webhook"}`
	unconverted          = promql.ConversionSeconds + `_count{succeeded="false"}`

	// failedClosed is all that is no refusal on purpose, so that kinds of errors
	// which the API server does not have yet count as well. intended are these.
	failedClosed = promql.Rejections + `{error_type!="no_error"}`
	intended     = promql.Rejections + `{error_type="no_error"}`
)

// callsRecorded is the record of how often each webhook was called for each operation, in six
// hours of all webhooks, in other windows of the affected ones alone.
const callsRecorded = `cluster_type_name:webhook_auditor_calls:increase6h`

var callsRecord = RecordingRule{
	Name: callsRecorded, Asks: "How often was each webhook called in six hours, for each operation?",
	Expr: `
		sum by (type, name, operation) (increase(` + promql.Requests + `[6h]) or increase(` + matchConditionErrors + `[6h])) > 0
		or sum by (type, name, operation) (` + asCalls(`increase(`+promql.ConversionSeconds+`_count[6h])`) + `) > 0`,
}

// affected are the webhooks that alerts may be about: those of which calls failed or were slow within six
// hours, or which ever refused a request. They are few, so what is known of all webhooks is looked up once
// for these, and the alerts read little.
const affected = `cluster_type_name:webhook_auditor_webhook_affected:group`

// counters are the counters of the calls of these, from when the first one failed: reading those of all
// webhooks costs the same again for each window. An alert waits for failures in six minutes or in three
// slots of four, so that five minutes of calls are known by then, and at least half of the last 30.
const counters = `cluster_instance_type_name_operation_code:webhook_auditor_calls_affected:last5m`

// callsOn is the record of how often each of these was called in the window, on each API server, for each operation.
func callsOn(window string) string {
	return `cluster_instance_type_name:webhook_auditor_calls:increase` + window
}

// callsBy is that of how often on all of them, and for each operation.
func callsBy(window string) string {
	return `cluster_type_name_operation:webhook_auditor_calls_affected:increase` + window
}

func affectedCalls(window string) string { return callsBy(window) + `{operation=""}` }

// affectedRecords are about the affected webhooks: their calls, and what the auditor knows of them.
func affectedRecords() []RecordingRule {
	out := []RecordingRule{
		{
			Name: affected, Asks: "Which webhooks may alerts be about? Those whose calls failed or were slow, or which ever refused a request.",
			Expr: `group by (type, name) (
				` + failedOn("6h") + ` or last_over_time(` + failures + `[15m]) or last_over_time(` + intended + `[15m])
				or ` + asWebhook(`last_over_time(`+promql.ConversionSeconds+`_count[15m])`) + ` or last_over_time(` + slowCount + `[6h])
			)`,
		},
		{
			Name: counters, Asks: "What did each API server last count of the calls of affected webhooks?",
			Expr: `(
				last_over_time(` + promql.Requests + `[5m]) or last_over_time(` + matchConditionErrors + `[5m])
				or ` + asCalls(`last_over_time(`+promql.ConversionSeconds+`_count[5m])`) + `
			) and on (type, name) ` + affected,
		},
	}
	for _, window := range []string{"3m", "5m", "30m"} {
		out = append(out, RecordingRule{
			Name: callsOn(window), Asks: "How often was each affected webhook called in " + window + ", on each API server?",
			Expr: `sum by (instance, type, name, operation) (increase(` + counters + `[` + window + `])) > 0`,
		}, RecordingRule{
			Name: callsBy(window), Asks: "How often on all of them, and for each operation?",
			Expr: `sum by (type, name) (` + callsOn(window) + `) or sum by (type, name, operation) (` + callsOn(window) + `)`,
		})
	}
	out = append(out, RecordingRule{
		Name: callsBy("6h"), Asks: "How often was each affected webhook called in 6h, and for each operation?",
		Expr: `(sum by (type, name) (` + callsRecorded + `) or ` + callsRecorded + `) and on (type, name) ` + affected,
	})
	return append(out, affectedInventory...)
}

// The values of the label failure: the ways in which calls fail.
const (
	isClosed      = `failure="closed"`      // refused
	isUnevaluated = `failure="unevaluated"` // matchConditions that cannot be evaluated
	isConversion  = `failure="conversion"`
	isAdmission   = `failure=~"closed|open"`
)

// perFailure is what failures are joined by. A share is that of all calls of a webhook, with
// neither operation nor instance, or that of an operation, or of one on an API server.
const perFailure = `(type, name, failure, operation, instance)`

// failures are the counters of failed calls as they were scraped last. Like counters,
// they have a value at each evaluation, so that calls and their failures are seen in
// the same window, however seldom API servers are scraped.
const failures = `cluster_instance_type_name_failure:webhook_auditor_failed:last5m`

// passedCalls are the calls that failed and let the request through, as the counter of calls has
// them: promql.FailedOpen does not say for which operation.
const passedCalls = promql.Requests + `{rejected="false", code!="200"}`

// byFailure is what function makes of the counters of failed calls, labelled with the way
// in which they fail.
func byFailure(function string) string {
	label := func(counter, failure string) string {
		return `label_replace(` + strings.ReplaceAll(function, "COUNTER", counter) + `, "failure", "` + failure + `", "", "")`
	}
	return label(failedClosed, "closed") + ` or ` + label(passedCalls, "open") + ` or on (instance, type, name, failure) ` + label(promql.FailedOpen, "open") +
		` or ` + label(matchConditionErrors, "unevaluated") + ` or ` + asCalls(label(unconverted, "conversion"))
}

// failedOn is the record of the failures of each webhook on each API server, for each operation.
func failedOn(window string) string {
	return `cluster_instance_type_name_failure:webhook_auditor_failed:increase` + window
}

// failedIn is that of the failures of each webhook, and of each of its operations, without
// those of API servers that reach no webhook at all: these have an alert of their own.
func failedIn(window string) string {
	return `cluster_type_name_failure:webhook_auditor_failed:increase` + window
}

// ratio is the record of the share of the calls that failed in the window.
func ratio(window string) string {
	return `cluster_type_name_failure:webhook_auditor_failed:ratio` + window
}

// seenCounter is an increase for short windows: those that hold one scrape, or none,
// as API servers are scraped seldom or their scrapes fail, reach back five minutes.
func seenCounter(counter string) string {
	return `(increase(` + counter + `[2m]) or increase(` + counter + `[5m]))`
}

var failureRecords = []RecordingRule{
	{Name: failures, Asks: "What did each API server last count of failed calls, by the way in which they fail?", Expr: byFailure("last_over_time(COUNTER[5m])")},
	{Name: failedOn("3m"), Asks: "How many calls of each webhook failed in 3m on each API server, for each operation?", Expr: failedSince("3m")},
	{Name: failedOn("5m"), Asks: "How many in 5m?", Expr: failedSince("5m")},
	{Name: failedOn("30m"), Asks: "How many in 30m?", Expr: failedSince("30m")},
	{Name: failedOn("6h"), Asks: "How many in 6h?", Expr: failedSince("6h")},
}

func failedSince(window string) string {
	return `sum by (instance, type, name, failure, operation) (increase(` + failures + `[` + window + `])) > 0`
}

// The records of which failures are worth an alert.
const (
	// recovered are the failures that are over: at least 20 calls were made in the last three minutes, of
	// which at most a tenth of what failed at worst did, as a busy webhook always has stray failures; or,
	// if the webhook is called more seldom, none failed in the last 15; or the auditor found the backend
	// down and no longer does: that has paged, and what failed until then must not page again.
	recovered = `cluster_type_name_failure:webhook_auditor_failed:recovered`
	// fresh is what nothing begins to fire without: its cause would have ended.
	fresh       = `cluster_type_name_failure:webhook_auditor_failed:ratio_fresh3m`
	spells      = `cluster_type_name_failure:webhook_auditor_failed:spells`
	respelled   = `cluster_type_name_failure:webhook_auditor_failed:ratio_respelled`
	shortOutage = `cluster_type_name_failure:webhook_auditor_failed:ratio_outage30m`
	longOutage  = `cluster_type_name_failure:webhook_auditor_failed:ratio_outage6h`
	burning     = `cluster_type_name_failure:webhook_auditor_failed:ratio_burning`
	overTicket  = `cluster_type_name_failure:webhook_auditor_failed:ratio_over5m`
	// worrying is the share of the calls that fail, where it warns: an outage, or over the threshold
	// in 10 of the last 30 minutes, or in 7 slots of 2, or over two in a hundred in half of the slots of 6 hours.
	worrying = `cluster_type_name_failure:webhook_auditor_failed:ratio_worrying`
)

// ratioRecords are the shares. What fails for an operation, or for one on an API server, is
// looked at by itself where most of its calls fail: healthy calls of others must not hide it.
func ratioRecords() []RecordingRule {
	cleared := func(window string) string { return failedOn(window) + ` unless on (instance, type, name) ` + excluded }
	parted := func(failed, window string) string {
		return `clamp_max(sum by (type, name, failure) (` + failed + `) / on (type, name) group_left () ` + affectedCalls(window) + `, 1) or clamp_max(
			(sum by (type, name, failure, operation) (` + failed + `) or ` + failed + `)
			/ on (type, name, operation, instance) group_left () (` + callsBy(window) + ` or ` + callsOn(window) + `), 1) > $partShare`
	}
	summed := func(window string) string {
		return `clamp_max(` + failedIn(window) + `{instance=""} / on (type, name, operation) group_left () ` + callsBy(window) + `, 1)`
	}
	levels := func(failed string) string {
		return `sum by (type, name, failure) (` + failed + `) or sum by (type, name, failure, operation) (` + failed + `)`
	}
	return []RecordingRule{
		{Name: failedIn("30m"), Asks: "How many calls of each webhook, of its operations, and of these on each API server, failed in 30m, without those of API servers that reach none?", Expr: levels(cleared("30m")) + ` or ` + cleared("30m")},
		{Name: failedIn("6h"), Asks: "How many failed in 6h?", Expr: levels(cleared("6h"))},
		// What is left out counts here, so that a webhook whose calls fail again is known by the minutes in which they did.
		{Name: ratio("3m"), Asks: "Which share of the calls failed in 3m, on all API servers? Which of an operation, or on an API server, where most fail?", Expr: parted(failedOn("3m"), "3m")},
		{Name: ratio("5m"), Asks: "Which share failed in 5m, without those of API servers that reach none?", Expr: parted(`(`+cleared("5m")+`)`, "5m")},
		{Name: ratio("30m"), Asks: "Which share failed in 30m?", Expr: summed("30m")},
		{Name: ratio("6h"), Asks: "Which share failed in 6h?", Expr: summed("6h")},
	}
}

// outageRecords are the failures that are worth an alert. All count the minutes in which the share
// of failed calls was too large, so that the stray failures of a busy webhook do not
// make an outage of what passes. The numbers are those of Numbers.
//
// An outage of a webhook that is called all the time lasts for minutes: a failure is seen for 3 of them, so
// an outage of two minutes shows for less than it takes, and nothing but the failures must go on for the
// alert to fire: neither a failed scrape nor a minute without calls starts it anew.
//
// One of a webhook that is called now and then lasts until calls are answered for half an
// hour, or 20 of them and none failed for a quarter, or until the webhook is not called any
// more, or no API server is scraped.
//
// Either begins while calls fail, or none is made, and ends within three minutes where enough
// calls are answered. What has ended twice in 75 minutes goes on for a quarter of an hour after the
// last failure, as a ticket without a page for half an hour: a backend that comes and goes is one of them.
func outageRecords() []RecordingRule {
	names := strings.NewReplacer("PER", perFailure, "RATIO30", ratio("30m"), "RATIO3", ratio("3m"), "RATIO5", ratio("5m"), "RATIO6H", ratio("6h"),
		"FAILED30", failedIn("30m"), "FAILED6H", failedIn("6h"), "CALLED30", callsBy("30m"), "CALLED3", callsBy("3m"), "COUNTERS", counters,
		"FRESH", fresh, "SPELLS", spells, "REPAIRED", backendRepaired, "RECOVERED", recovered, "AGAIN", respelled, "SHORT", shortOutage, "LONG", longOutage,
		"BURNING", burning, "OVER", overTicket, "WORRYING", worrying)
	out := []RecordingRule{
		{Name: recovered, Asks: "Of which webhooks do calls no longer fail?", Expr: `
			FAILED6H and on (type, name, operation) (CALLED3 >= 20) unless on PER (RATIO3 > on PER 0.1 * max_over_time(RATIO5[6h:4m]))
			or on PER (FAILED6H and on (type, name) REPAIRED unless on PER RATIO3)
			or on PER (FAILED6H and on (type, name, operation) (CALLED30 >= 20) unless on PER (RATIO30 > 0.5) unless on PER last_over_time(RATIO3[15m]))`},
		{Name: fresh, Asks: "Which share failed in 3m, where it is what it was a minute ago?", Expr: `RATIO3 > on PER 0.95 * max_over_time(RATIO3[90s])`},
		{Name: spells, Asks: "Do calls of a webhook fail now, 1, or did they before, 0?", Expr: `(RATIO3 > 0.1) ^ 0 or on PER 0 * last_over_time(RATIO3[75m])`},
		{Name: respelled, Asks: "Which share failed in 30m, where failing ended twice in 75m?", Expr: `
			RATIO30 and on PER resets(SPELLS[75m]) >= 2 unless on (type, name) (REPAIRED unless on (type, name) CALLED30 >= 20)`},
		{Name: shortOutage, Asks: "Which share fails, of a webhook that is called all the time, where it is an outage?", Expr: `
			RATIO5 > $pageShare
			and on PER count_over_time((RATIO3 > 0.75 * $pageShare)[30m:30s]) >= $pageHalfMinutes
			and on PER FAILED30 >= $pageFailures`},
		{Name: longOutage, Asks: "Which share fails, of one that is called now and then?", Expr: `
			RATIO6H >= $WebhookFailingClosed
			and on PER count_over_time((RATIO5 > $WebhookFailingClosed)[6h:4m]) >= $pageSlots
			and on PER FAILED6H >= $pageFailures
			and on PER last_over_time(RATIO5[75m])
			and on () group(last_over_time(COUNTERS[15m]))
			unless on PER (RATIO6H and on (type, name, operation) (CALLED30 > 4.5) unless on PER (RATIO30 > 0.5 * $WebhookFailingClosed))`},
		{Name: burning, Asks: "Which share fails, where it is an outage?", Expr: `
			(SHORT or on PER LONG) and on PER (FRESH or on PER BURNING or on PER (LONG unless on (type, name, operation) CALLED3)) unless on PER RECOVERED
			or on PER (AGAIN and on PER BURNING and on PER last_over_time(RATIO3[15m]))`},
		{Name: overTicket, Asks: "Which share of 5m is over the threshold of a ticket?", Expr: `
			RATIO5{failure=~"closed|unevaluated"} > $WebhookCallsFailing or RATIO5{failure="open"} > $WebhookFailingOpen or RATIO5{` + isConversion + `} > $WebhookConversionFailing`},
		{Name: worrying, Asks: "Which share fails, where it is worth a ticket? It begins while calls fail, and goes on where they come and go.", Expr: `
			BURNING
			or on PER (
				(
					OVER and on PER (count_over_time(OVER[30m:1m]) >= 10 or on PER count_over_time(OVER[6h:2m]) >= 7)
					or on PER (RATIO6H > $ticketShareOfHours and on PER count_over_time((RATIO5 > 0.5 * $ticketShareOfHours)[6h:4m]) >= 45)
				) and on PER (FAILED30 >= 3 unless on PER RECOVERED) and on PER (FRESH or on PER WORRYING)
			)
			or on PER (AGAIN and on PER WORRYING unless on PER last_over_time(BURNING[30m]))`},
	}
	for i := range out {
		out[i].Expr = names.Replace(out[i].Expr)
	}
	return out
}

// refusing are the failures of a record for which requests are refused, passing those for which they pass.
func refusing(record string) string {
	return `max by (type, name) (` + record + `{failure=~"closed|unevaluated"} unless on (type, name, failure) (` + ratio("6h") + `{` + isUnevaluated + `} unless on (type, name) ` + failsClosed + `))`
}

func passing(record string) string {
	return `max by (type, name) (` + record + `{failure=~"open|unevaluated"} unless on (type, name, failure) (` + ratio("6h") + `{` + isUnevaluated + `} and on (type, name) ` + failsClosed + `))`
}

// The records of API servers that reach no webhook at all.
const (
	noneReachable = `cluster_instance:webhook_auditor_failed:ratio_all`
	cutOff        = `cluster_instance:webhook_auditor_failed:max5m`
	// excluded are the failures that are none of single webhooks: what an API server counted while it was
	// cut off, and what was counted of a webhook that was then deleted. They are in the windows for hours
	// after that, and are left out until calls of that webhook fail for a while on that API server, which
	// is for another reason. A call that fails now and then brings nothing back.
	excluded = `cluster_instance_type_name:webhook_auditor_failed:excluded`
	// afresh are those of which calls fail since then, for as long as that is seen.
	afresh = `cluster_instance_type_name:webhook_auditor_failed:afresh`
)

// backendRepaired is the record of the webhooks whose backends the auditor found
// down within what the windows hold, and no longer does.
const backendRepaired = `cluster_type_name:webhook_auditor_backend_repaired:group`

var repaired = strings.ReplaceAll(`
	group by (type, name) (last_over_time(webhook_auditor_finding{check=~"CHECKS"}[75m]))
	unless on (type, name) group by (type, name) (last_over_time(webhook_auditor_finding{check=~"CHECKS"}[3m]))
	and on () group(last_over_time(webhook_auditor_snapshot_timestamp_seconds[3m]))`, "CHECKS", strings.Join(backendChecks(), "|"))

// backendChecks find that a backend cannot be called.
func backendChecks() []string {
	others := func(c *classify.Check) bool { return c.ConversionAlert == "" }
	return classify.CheckNames(slices.DeleteFunc(slices.Clone(classify.Checks), others))
}

// unreached are the webhooks of which calls failed on each API server, and how many.
const unreached = `cluster_instance_type_name:webhook_auditor_calls_unreached:increase2m`

// cutOffRecords select the API servers of which all calls fail, while other API
// servers reach two of the webhooks, or where the webhooks have two backends that
// may both be up: it is not for a backend that they cannot be called.
var cutOffRecords = []RecordingRule{
	{Name: unreached, Asks: "How many calls got no answer on each API server in 2m?", Expr: `sum by (instance, type, name) (` + seenCounter(failedClosed) + ` or ` + seenCounter(promql.FailedOpen) + `) > 0`},
	{
		Name: noneReachable, Asks: "Which API servers reach none of their webhooks, though it is for no single backend?",
		Expr: `
			clamp_max(sum by (instance) (` + unreached + `) / on (instance) sum by (instance) (` + seenCounter(promql.Requests) + `), 1) > 0.95
			and on (instance) sum by (instance) (` + failedOn("5m") + `{` + isAdmission + `}) >= 5
			and on (instance) (
				count by (instance) (` + unreached + ` and on (type, name) (
					` + affectedCalls("3m") + ` * 0.9 > on (type, name) sum by (type, name) (` + failedOn("3m") + `{` + isAdmission + `})
				)) >= 2
				or on (instance)
				count by (instance) (group by (instance, service_namespace) (
					(` + unreached + ` unless on (type, name) ` + backendDown + `)
					* on (type, name) group_left (service_namespace) topk by (type, name) (1, ` + affectedThresholds + ` or on (type, name) ` + affected + `)
				)) >= 2
			)`,
	},
	{Name: backendRepaired, Asks: "Whose backends were down, and are no longer?", Expr: repaired},
	{Name: cutOff, Asks: "Which API servers reached no webhook within 5m?", Expr: `max_over_time(` + noneReachable + `[5m:1m])`},
	{
		Name: afresh, Asks: "What fails again of what is left out?",
		Expr: `group by (instance, type, name) (` + failedOn("3m") + `) and on (instance, type, name) ` + excluded + ` unless on (instance) ` + cutOff + ` unless on (type, name) ` + deregistered,
	},
	{
		Name: excluded, Asks: "Whose failures are left out, as they were none of single webhooks?",
		Expr: `
			group by (instance, type, name) (` + failedOn("6h") + `)
			and on (instance, type, name) (
				` + failedOn("6h") + ` and on (instance) ` + cutOff + `
				or ` + failedOn("6h") + ` and on (type, name) ` + deregistered + `
				or ` + excluded + ` unless on (instance, type, name) count_over_time(` + afresh + `[8m:1m]) >= 6 unless on (instance, type, name) count_over_time(` + afresh + `[2h:1m]) >= 12
			)`,
	},
}

// historyGroup reads what was counted in the last hours, which changes little within minutes.
var historyGroup = Group{
	Name:     "webhook-auditor-history",
	Interval: 3 * time.Minute,
	RecordingRules: slices.Concat(
		[]RecordingRule{callsRecord, remembered(failsClosed, `webhook_auditor_webhook_failure_impact{impact="closed"}`, `group by (type, name) (SERIES)`)},
		refusalRecords, answerRecords,
	),
	Alerts: []Alert{notInInventory},
}

// callsGroup has all alerts on calls in one group, as they share what they read.
var callsGroup = Group{
	Name: "webhook-auditor-calls",
	RecordingRules: slices.Concat(inventoryRecords, failureRecords, affectedRecords(), cutOffRecords,
		ratioRecords(), outageRecords(), slowNowRecords(),
		[]RecordingRule{recurringRecord, controllersStuck}),
	Alerts: slices.Concat(failureAlerts, latencyAlerts, admissionAlerts, conversionAlerts),
}
