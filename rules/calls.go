package rules

import (
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// The API server's series of calls. A call that fails is counted by what the
// API server made of the request: it was refused, or let through. A request
// whose matchConditions cannot be evaluated is no call; whether it is refused
// depends on the failurePolicy. Conversions are counted on the series of real
// calls: apiserver_conversion_webhook_request_total counts no-ops too, and would
// hide half of a total outage.
const (
	matchConditionErrors = promql.MatchConditionErrors + `{kind="webhook"}`
	unconverted          = promql.ConversionSeconds + `_count{succeeded="false"}`

	// failedClosed is all that is no refusal on purpose, so that kinds of errors
	// which the API server does not have yet count as well. intended are these.
	failedClosed = promql.Rejections + `{error_type!="no_error"}`
	intended     = promql.Rejections + `{error_type="no_error"}`
)

// calls6h is how often each webhook was called in six hours. Only the calls of the
// affected webhooks are counted in other windows.
const calls6h = `cluster_type_name:webhook_auditor_calls:increase6h`

var callsRecord = RecordingRule{
	Name: calls6h, Asks: "How often was each webhook called in six hours?",
	Expr: `
		sum by (type, name) (increase(` + promql.Requests + `[6h]) or increase(` + matchConditionErrors + `[6h])) > 0
		or ` + asWebhook(`sum by (crd_name) (increase(`+promql.ConversionSeconds+`_count[6h])) > 0`),
}

// affected are the webhooks that alerts may be about: those of which calls
// failed or were slow within six hours, or which ever refused a request. They
// are few, so what is known of all webhooks is looked up once for these, and the
// alerts read little.
const affected = `cluster_type_name:webhook_auditor_webhook_affected:group`

// counters are the counters of the calls of these, from when the first one failed:
// reading those of all webhooks costs the same again for each window. An alert
// waits for failures in six minutes or in three slots of four, so that five minutes
// of calls are known by then, and at least half of the last 30.
const counters = `cluster_instance_type_name_operation_code:webhook_auditor_calls_affected:last5m`

// reported says that some API server was scraped.
const reported = `cluster:webhook_auditor_calls_affected:group15m`

// affectedCalls are how often each of these was called in the window.
func affectedCalls(window string) string {
	return `cluster_type_name:webhook_auditor_calls_affected:increase` + window
}

// affectedRecords are about the affected webhooks: their calls, and what the auditor
// knows of them.
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
				or ` + asWebhook(`last_over_time(`+promql.ConversionSeconds+`_count[5m])`) + `
			) and on (type, name) ` + affected,
		},
		{Name: reported, Asks: "Is any API server scraped?", Expr: `group(last_over_time(` + counters + `[15m]))`},
	}
	for _, window := range []string{"2m", "3m", "5m", "30m"} {
		out = append(out, RecordingRule{
			Name: affectedCalls(window), Asks: "How often was each affected webhook called in " + window + "?",
			Expr: `sum by (type, name) (increase(` + counters + `[` + window + `])) > 0`,
		})
	}
	out = append(out, RecordingRule{Name: affectedCalls("6h"), Asks: "How often was each affected webhook called in 6h?", Expr: calls6h + ` and on (type, name) ` + affected})
	return append(out, affectedInventory()...)
}

// The values of the label failure: the ways in which calls fail.
const (
	isClosed      = `failure="closed"`      // refused
	isUnevaluated = `failure="unevaluated"` // matchConditions that cannot be evaluated
	isConversion  = `failure="conversion"`
	isAdmission   = `failure=~"closed|open"`
)

// perFailure is what failures are joined by.
const perFailure = `(type, name, failure)`

// failures are the counters of failed calls as they were scraped last. Like counters,
// they have a value at each evaluation, so that calls and their failures are seen in
// the same window, however seldom API servers are scraped.
const failures = `cluster_instance_type_name_failure:webhook_auditor_calls_failed:last5m`

// byFailure is what function makes of the counters of failed calls, labelled with the way
// in which they fail.
func byFailure(function string) string {
	of := func(counter, failure string) string {
		return `label_replace(` + strings.ReplaceAll(function, "COUNTER", counter) + `, "failure", "` + failure + `", "", "")`
	}
	return of(failedClosed, "closed") + ` or ` + of(promql.FailedOpen, "open") + ` or ` + of(matchConditionErrors, "unevaluated") + ` or ` + asWebhook(of(unconverted, "conversion"))
}

// failedOn is the record of the failures of each webhook on each API server.
func failedOn(window string) string {
	return `cluster_instance_type_name_failure:webhook_auditor_calls_failed:increase` + window
}

// failedIn is that of the failures of each webhook, without those of API servers that
// reach no webhook at all: these have an alert of their own.
func failedIn(window string) string {
	return `cluster_type_name_failure:webhook_auditor_calls_failed:increase` + window
}

// ratio is the record of the share of the calls that failed in the window.
func ratio(window string) string {
	return `cluster_type_name_failure:webhook_auditor_calls_failed:ratio` + window
}

// seen is an increase for short windows: those that hold one scrape, or none,
// as API servers are scraped seldom or their scrapes fail, reach back five minutes.
func seen(counter string) string {
	return `(increase(` + counter + `[2m]) or increase(` + counter + `[5m]))`
}

var failureRecords = []RecordingRule{
	{Name: failures, Asks: "What did each API server last count of failed calls, by the way in which they fail?", Expr: byFailure("last_over_time(COUNTER[5m])")},
	{
		Name: failedOn("2m"), Asks: "How many calls of each webhook failed in 2m on each API server?",
		Expr: `sum by (instance, type, name, failure) (` + byFailure(seen("COUNTER")) + `) > 0`,
	},
	{Name: failedOn("5m"), Asks: "How many in 5m?", Expr: failedSince("5m")},
	{Name: failedOn("6h"), Asks: "How many in 6h?", Expr: failedSince("6h")},
}

func failedSince(window string) string {
	return `sum by (instance, type, name, failure) (increase(` + failures + `[` + window + `])) > 0`
}

// The records of which failures are worth an alert.
const (
	// recovered are the failures that are over: at least 20 calls were answered and
	// hardly any failed in the last three minutes, or, if the webhook is called more
	// seldom, in the last 15, or the auditor found the backend down and no longer does:
	// that has paged, and what failed until then must not page again.
	recovered = `cluster_type_name_failure:webhook_auditor_calls_failed:recovered`
	// calm are those that are over but for stray failures, which a busy webhook always has:
	// a tenth of what failed at worst. What failed in the hours before must not page for these.
	calm = `cluster_type_name_failure:webhook_auditor_calls_failed:calm`
	// spells is whether calls fail now, 1, or failed before, 0.
	spells = `cluster_type_name_failure:webhook_auditor_calls_failed:spells`
	// burning is the share of the calls that fail, where it pages.
	burning = `cluster_type_name_failure:webhook_auditor_calls_failed:ratio_burning`
	// lasting are the failures that may warn: there are three, and they are not over.
	lasting = `cluster_type_name_failure:webhook_auditor_calls_failed:lasting`
	// slots is in how many slots of 6 hours one call in twenty failed, and more than one
	// in a hundred.
	slots = `cluster_type_name_failure:webhook_auditor_calls_failed:slots6h`
)

// shareRecords are what the alerts compare. All count the minutes in which the share
// of failed calls was too large, so that the stray failures of a busy webhook do not
// make an outage of what passes.
//
// Those of burning page, by two windows. The short one is for webhooks that are
// called all the time: over a fifth in the last 5 minutes, and over 15 % for more than 5 of
// the last 30 minutes. A failure is seen for 3 minutes, so an outage of two minutes
// shows for less, and nothing but the failures must go on for the alert to fire: neither
// a failed scrape nor a minute without calls starts it anew.
//
// The long one is for webhooks that are called now and then: over 6 % in 6 hours,
// and over one in twenty in 3 of their slots. It lasts until calls are
// answered for half an hour, or 20 of them and none failed for a quarter, or
// until the webhook is not called any more, or no API server is scraped.
//
// Either ends within three minutes where enough calls are answered. What has ended and
// begun again twice goes on for a quarter of an hour after the last failure: a backend
// that comes and goes is one page.
func shareRecords() []RecordingRule {
	var out []RecordingRule
	for _, window := range []string{"30m", "6h"} {
		out = append(out, RecordingRule{
			Name: failedIn(window), Asks: "How many calls of each webhook failed in " + window + ", without those of API servers that reach none?",
			Expr: failedWithin(window) + ` > 0`,
		})
	}
	out = append(
		out,
		// What is left out counts here, so that a webhook whose calls fail again is known by the minutes in which they did.
		RecordingRule{Name: ratio("3m"), Asks: "Which share of the calls of each webhook failed in 3m, on all API servers?", Expr: shareOf(`sum by `+perFailure+` (increase(`+failures+`[3m]))`, "3m")},
		RecordingRule{Name: ratio("5m"), Asks: "Which share failed in 5m, without those of API servers that reach none?", Expr: shareOf(failedWithin("5m"), "5m")},
	)
	for _, window := range []string{"30m", "6h"} {
		out = append(out, RecordingRule{Name: ratio(window), Asks: "Which share failed in " + window + "?", Expr: shareOf(failedIn(window), window)})
	}
	without := ` unless on ` + perFailure + ` (`
	short := ratio("5m") + ` > 0.2
		and on ` + perFailure + ` count_over_time((` + ratio("3m") + ` > 0.15)[30m:30s]) >= 11
		and on ` + perFailure + ` ` + failedIn("30m") + ` >= 5`
	long := ratio("6h") + ` >= 0.06
		and on ` + perFailure + ` ` + slots + ` >= 3
		and on ` + perFailure + ` ` + failedIn("6h") + ` >= 5
		and on ` + perFailure + ` last_over_time(` + ratio("5m") + `[75m])
		and on () ` + reported + without + ratio("6h") + ` and on (type, name) ` + affectedCalls("30m") + ` >= 5` + without + ratio("30m") + ` > 0.03))`
	again := ratio("30m") + `
		and on ` + perFailure + ` ` + burning + `
		and on ` + perFailure + ` resets(` + spells + `[75m]) >= 2
		and on ` + perFailure + ` last_over_time(` + ratio("3m") + `[15m])
		unless on (type, name) ` + backendRepaired
	return append(
		out,
		RecordingRule{Name: recovered, Asks: "Of which webhooks do calls no longer fail?", Expr: `
			` + failedIn("6h") + ` and on (type, name) (` + affectedCalls("3m") + ` >= 20 or on (type, name) ` + backendRepaired + `)` + without + ratio("3m") + ` > 0.01)
			or on ` + perFailure + ` (
				` + failedIn("6h") + ` and on (type, name) ` + affectedCalls("30m") + ` >= 20` + without + ratio("30m") + ` > 0.5)` + without + `max_over_time(` + ratio("3m") + `[15m]) > 0.01)
			)`},
		RecordingRule{Name: calm, Asks: "Of which webhooks do a few of many calls fail, where far more did within 6h?", Expr: failedIn("6h") + ` and on (type, name) ` + affectedCalls("3m") + ` >= 40` + without + ratio("3m") + ` > on ` + perFailure + ` 0.1 * max_over_time(` + ratio("5m") + `[6h:4m]))`},
		RecordingRule{Name: spells, Asks: "Do calls of a webhook fail now, 1, or did they before, 0?", Expr: `(` + ratio("3m") + ` > 0.1) ^ 0 or on ` + perFailure + ` 0 * last_over_time(` + ratio("3m") + `[75m])`},
		RecordingRule{Name: slots, Asks: "In how many slots of 4 minutes did one call in twenty fail, in 6h?", Expr: `count_over_time((` + ratio("5m") + ` > 0.05)[6h:4m])`},
		RecordingRule{Name: burning, Asks: "Which share fails, where it is an outage?", Expr: `((` + short + ` or on ` + perFailure + ` ` + long + `)` + without + recovered + ` or ` + calm + `)) or on ` + perFailure + ` (` + again + `)`},
		RecordingRule{Name: lasting, Asks: "Where did three calls fail in 30m, and do calls still fail?", Expr: failedIn("30m") + ` >= 3` + without + recovered + `)`},
	)
}

// failedWithin counts the failures of each webhook in the window.
func failedWithin(window string) string {
	return `sum by ` + perFailure + ` (increase(` + failures + `[` + window + `]) unless on (instance, type, name) ` + excluded + `)`
}

func shareOf(failed, window string) string {
	return `clamp_max(` + failed + ` / on (type, name) group_left () ` + affectedCalls(window) + `, 1) > 0`
}

// failing is the share of the calls that fail in these ways, where it is worth a
// warning: an outage, or over the threshold in 10 of the last 30 minutes or in 5 slots,
// or over two in a hundred in half of the slots of 6 hours.
func failing(ways string) string {
	return strings.NewReplacer("{}", `{`+ways+`}`, "PER", perFailure).Replace(`(
		` + burning + `{}
		or on PER (
			(
				` + ratio("5m") + `{} > $threshold and on PER count_over_time((` + ratio("5m") + `{} > $threshold)[30m:1m]) >= 10
				or on PER ` + ratio("30m") + `{} > $threshold and on PER ` + slots + ` >= 5
			) unless on PER ` + calm + `
			or on PER ` + ratio("6h") + `{} > 0.02 and on PER count_over_time((` + ratio("5m") + `{} > 0.01)[6h:4m]) >= 45
		) and on PER ` + lasting + `
	)`)
}

// refusing are the failures for which requests are refused, passing those for which
// they pass.
func refusing(share func(string) string) string {
	return `max by (type, name) (` + share(`failure=~"closed|unevaluated"`) + ` unless on ` + perFailure + ` (` + ratio("6h") + `{` + isUnevaluated + `} unless on (type, name) ` + failsClosed + `))`
}

func passing(share func(string) string) string {
	return `max by (type, name) (` + share(`failure=~"open|unevaluated"`) + ` unless on ` + perFailure + ` (` + ratio("6h") + `{` + isUnevaluated + `} and on (type, name) ` + failsClosed + `))`
}

// The records of API servers that reach no webhook at all.
const (
	noneReachable = `cluster_instance:webhook_auditor_calls_failed:ratio_all`
	cutOff        = `cluster_instance:webhook_auditor_calls_failed:max5m`
	// excluded are the failures that are none of single webhooks: what an API server
	// counted while it was cut off, and what was counted of a webhook that was then
	// deleted. They are in the windows for hours after that, and are left out until
	// calls of that webhook fail for a while on that API server, which is for
	// another reason. A call that fails now and then brings nothing back.
	excluded = `cluster_instance_type_name:webhook_auditor_calls_failed:group`
	// afresh are those of which calls fail since then, for as long as that is seen.
	afresh = `cluster_instance_type_name:webhook_auditor_calls_failed_again:group2m`
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
	var out []string
	for _, c := range classify.Checks {
		if c.ConversionAlert != "" {
			out = append(out, c.Name)
		}
	}
	return out
}

// unreached are the webhooks of which calls failed on each API server, and how many.
const unreached = `cluster_instance_type_name:webhook_auditor_calls_unreached:increase2m`

// cutOffRecords select the API servers of which all calls fail, while other API
// servers reach two of the webhooks, or where the webhooks have two backends that
// are not known to be down: it is not for a backend that they cannot be called.
var cutOffRecords = []RecordingRule{
	{Name: unreached, Asks: "How many calls got no answer on each API server in 2m?", Expr: `sum by (instance, type, name) (` + failedOn("2m") + `{` + isAdmission + `})`},
	{
		Name: noneReachable, Asks: "Which API servers reach none of their webhooks, though it is for no single backend?",
		Expr: `
			clamp_max(sum by (instance) (` + unreached + `) / on (instance) sum by (instance) (` + seen(promql.Requests) + `), 1) > 0.95
			and on (instance) sum by (instance) (` + failedOn("5m") + `{` + isAdmission + `}) >= 5
			and on (instance) (
				count by (instance) (` + unreached + ` and on (type, name) (
					` + affectedCalls("2m") + ` * 0.9 > on (type, name) sum by (type, name) (increase(` + failures + `{` + isAdmission + `}[2m]))
				)) >= 2
				or on (instance)
				count by (instance) (group by (instance, namespace) ((` + unreached + ` unless on (type, name) ` + backendDown + `) * on (type, name) group_left (namespace) ` + backends + `)) >= 2
			)`,
	},
	{Name: backendRepaired, Asks: "Whose backends were down, and are no longer?", Expr: repaired},
	{Name: cutOff, Asks: "Which API servers reached no webhook within 5m?", Expr: `max_over_time(` + noneReachable + `[5m:1m])`},
	{
		Name: afresh, Asks: "What fails again of what is left out?",
		Expr: `group by (instance, type, name) (` + failedOn("2m") + `) and on (instance, type, name) ` + excluded + ` unless on (instance) ` + cutOff + ` unless on (type, name) ` + deregistered,
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

// historyGroup reads what was counted in the last hours, which changes little
// within minutes.
func historyGroup() Group {
	return Group{
		Name:     "webhook-auditor-history",
		Interval: 3 * time.Minute,
		RecordingRules: slices.Concat(
			[]RecordingRule{callsRecord, remembered(failsClosed, `webhook_auditor_webhook_failure_impact{impact="closed"}`, `group by (type, name) (SERIES)`)},
			refusalRecords, answerRecords,
		),
		Alerts: []Alert{notInInventory},
	}
}

// callsGroup has all alerts on calls in one group, as they share what they read.
func callsGroup() Group {
	return Group{
		Name: "webhook-auditor-calls",
		RecordingRules: slices.Concat(inventoryRecords, failureRecords, affectedRecords(), cutOffRecords, shareRecords(),
			[]RecordingRule{slowLongRecord, controllersStuck}),
		Alerts: slices.Concat(failureAlerts(), latencyAlerts(), admissionAlerts(), conversionAlerts()),
	}
}
