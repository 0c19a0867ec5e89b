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
		sum by (type, name) (increase(`+promql.Requests+`[WINDOW]) or increase(`+matchConditionErrors+`[WINDOW])) > 0
		or `+asWebhook(`sum by (crd_name) (increase(`+promql.ConversionSeconds+`_count[WINDOW])) > 0`), "WINDOW", window)
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

// reported says that some API server was scraped.
const reported = `cluster:webhook_auditor_calls_affected:group15m`

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
		`last_over_time(` + promql.Rejections + `[15m])`, `last_over_time(` + promql.FailedOpen + `[15m])`, asWebhook(`last_over_time(` + promql.ConversionSeconds + `_count[15m])`),
		`last_over_time(` + slowCount + `[6h])`,
	}
	for _, f := range failures {
		operands = append(operands, f.on("increase6h"))
	}
	out := []RecordingRule{{Name: affected, Expr: `group by (type, name) (` + strings.Join(operands, " or ") + `)`}}
	out = append(out, RecordingRule{Name: counters, Expr: `(
			last_over_time(` + promql.Requests + `[5m]) or last_over_time(` + matchConditionErrors + `[5m])
			or ` + asWebhook(`last_over_time(`+promql.ConversionSeconds+`_count[5m])`) + `
		) and on (type, name) ` + affected})
	out = append(out, RecordingRule{
		Name:   reported,
		Expr:   `group(last_over_time(` + counters + `[15m]))`,
		Inline: `group(last_over_time(` + promql.Requests + `[15m]) or last_over_time(` + matchConditionErrors + `[15m]) or last_over_time(` + unconverted + `[15m]))`,
	})
	for _, window := range []string{"2m", "5m", "30m"} {
		out = append(out, affectedCallsRecord(window))
	}
	out = append(out, RecordingRule{Name: affectedCalls("6h"), Expr: calls6h + ` and on (type, name) ` + affected, Inline: calls("6h")})
	return append(out, affectedInventory...)
}

// A failure is a way in which calls fail, and how the API server counts it.
type failure struct {
	// metric is the middle of the records' names, counter what counts the failures.
	metric, counter string
}

// The failures.
var (
	closed      = failure{"webhook_auditor_calls_failed_closed", failedClosed}
	open        = failure{"webhook_auditor_calls_failed_open", promql.FailedOpen}
	unevaluated = failure{"webhook_auditor_match_condition_errors", matchConditionErrors}
	conversion  = failure{"webhook_auditor_conversions_failed", unconverted}
)

// increase counts the failures of each webhook on each API server in the window.
func (f failure) increase(window string) string {
	return f.perServer(`increase(` + f.counter + `[` + window + `])`)
}

// seen is like increase, for short windows: those that hold one scrape, or none,
// as API servers are scraped seldom or their scrapes fail, reach back five minutes.
func (f failure) seen(window string) string {
	return f.perServer(seenIn(f.counter, window))
}

func seenIn(counter, window string) string {
	return `increase(` + counter + `[` + window + `]) or increase(` + counter + `[5m])`
}

// perServer sums what is counted of each webhook on each API server.
func (f failure) perServer(counted string) string {
	if f == conversion {
		return asWebhook(`sum by (instance, crd_name) (` + counted + `) > 0`)
	}
	return `sum by (instance, type, name) (` + counted + `) > 0`
}

// last is the record of the counters as they were scraped last. Like counters, it
// has a value at each evaluation, so that calls and their failures are seen in the
// same short window, however seldom API servers are scraped.
func (f failure) last() RecordingRule {
	current := `last_over_time(` + f.counter + `[5m])`
	if f == conversion {
		current = asWebhook(current)
	}
	return RecordingRule{Name: f.on("last5m"), Expr: current}
}

// recent is the record of what failed in a window by these.
func (f failure) recent(window string) string { return f.on("recent" + window) }

// noneRecent leaves out the webhooks of which a call failed in the window.
func (f failure) noneRecent(window string) string {
	return `unless on (type, name) ` + f.recent(window)
}

// on is a record of the failures on each API server.
func (f failure) on(operations string) string {
	return `cluster_instance_type_name:` + f.metric + `:` + operations
}

// sum is the failures of each webhook, without those of API servers that reach no
// webhook at all: these have an alert of their own.
func (f failure) sum(operations string) string {
	return `sum by (type, name) (` + f.on(operations) + ` unless on (instance, type, name) ` + excluded + `)`
}

// most is like sum, of the API server that has most.
func (f failure) most(operations string) string {
	return `max by (type, name) (` + f.on(operations) + ` unless on (instance, type, name) ` + excluded + `)`
}

// burning is the record of the share of the calls that fail, where it pages.
func (f failure) burning() string { return `cluster_type_name:` + f.metric + `:ratio_burning` }

// increases are the records that cutOff and burning need.
func (f failure) increases() []RecordingRule {
	var out []RecordingRule
	for _, window := range []string{"5m", "15m", "30m", "75m", "6h"} {
		out = append(out, RecordingRule{Name: f.on("increase" + window), Expr: f.increase(window)})
	}
	return append(
		out,
		f.last(),
		RecordingRule{Name: f.recent("2m"), Expr: `increase(` + f.on("last5m") + `[2m]) > 0`, Inline: f.increase("2m")},
		RecordingRule{Name: f.recent("3m"), Expr: `increase(` + f.on("last5m") + `[3m]) > 0`, Inline: f.increase("3m")},
		RecordingRule{Name: f.on("increase2m"), Expr: f.seen("2m")},
		RecordingRule{Name: f.on("minutes30m"), Expr: `count_over_time((` + f.seen("3m") + `)[30m:1m])`},
		RecordingRule{Name: f.on("slots6h"), Expr: `count_over_time((` + f.increase("6m") + `)[6h:5m])`},
	)
}

// ratio is the record of the share of the calls that failed in the window.
func (f failure) ratio(window string) string {
	return `cluster_type_name:` + f.metric + `:ratio` + window
}

// over is the record of the webhooks whose failures are over: at least 20 calls
// were answered and none failed in the last two minutes, or in the last 15, if
// these are answered more seldom, or none in the last three, if the auditor found
// their backend down and no longer does: that has paged, and what failed until then
// must not page again.
func (f failure) over() string { return `cluster_type_name:` + f.metric + `:recovered` }

// spells is the record of whether calls fail now, 1, or failed before, 0.
func (f failure) spells() string { return `cluster_type_name:` + f.metric + `:spells` }

// lasting is the record of the share of the calls that fail in the window, where
// they do for a while.
func (f failure) lasting(window string) string {
	return `cluster_type_name:` + f.metric + `:ratio_lasting` + window
}

// shares are the records of what the alerts compare.
//
// Those of burning page, by two windows. The short one is for webhooks that are
// called all the time: over a fifth in the last 5 minutes, and failures in 6 of the
// last 30 minutes. A failure is seen for 3 minutes, so an outage of two minutes
// shows in 5, and nothing but the failures must go on for the alert to fire: neither
// a failed scrape nor a minute without calls starts it anew.
//
// The long one is for webhooks that are called now and then: over 6 % in 6 hours,
// and failures in 3 of their slots of 5 minutes. It lasts until calls are
// answered for half an hour, or 20 of them and none failed for a quarter, or
// until the webhook is not called any more, or no API server is scraped.
//
// Either ends within two minutes where enough calls are answered. What has ended and
// begun again twice goes on for a quarter of an hour after the last failure: a backend
// that comes and goes is one page.
//
// Those of lasting warn, over the alert's threshold in 10 of the last 30 minutes or
// in 3 slots of 5 minutes, and at two in a hundred in half of the slots of 6 hours.
func (f failure) shares() []RecordingRule {
	var out []RecordingRule
	for _, window := range []string{"5m", "30m", "6h"} {
		out = append(out, RecordingRule{Name: f.ratio(window), Expr: `clamp_max(` + f.sum("increase"+window) + ` / on (type, name) ` + affectedCalls(window) + `, 1)`})
	}
	short := f.ratio("5m") + ` > 0.2
		and on (type, name) ` + f.most("minutes30m") + ` >= 6
		and on (type, name) ` + f.sum("increase30m") + ` >= 5`
	long := f.ratio("6h") + ` >= 0.06
		and on (type, name) ` + f.most("slots6h") + ` >= 3
		and on (type, name) ` + f.sum("increase6h") + ` >= 5
		and on (type, name) ` + f.sum("increase75m") + ` > 0
		and on () ` + reported + `
		unless on (type, name) (` + affectedCalls("30m") + ` >= 5 unless on (type, name) ` + f.ratio("30m") + ` > 0.03)`
	pages := `(` + short + ` or on (type, name) ` + long + `) unless on (type, name) ` + f.over()
	again := f.ratio("30m") + `
		and on (type, name) ` + f.burning() + `
		and on (type, name) resets(` + f.spells() + `[75m]) >= 2
		and on (type, name) ` + f.sum("increase15m") + `
		unless on (type, name) ` + backendRepaired
	still := ` and on (type, name) ` + f.sum("increase30m") + ` >= 3 unless on (type, name) ` + f.over()
	return append(
		out,
		RecordingRule{Name: f.over(), Expr: `
			` + affectedCalls("2m") + ` >= 20 ` + f.noneRecent("2m") + `
			or on (type, name)
			` + affectedCalls("30m") + ` - on (type, name) ` + f.sum("increase30m") + ` >= 20 unless on (type, name) ` + f.on("increase15m") + `
			or on (type, name)
			` + backendRepaired + ` ` + f.noneRecent("3m")},
		RecordingRule{Name: f.spells(), Expr: `sum by (type, name) (` + f.recent("2m") + ` unless on (instance, type, name) ` + excluded + `) ^ 0 or on (type, name) 0 * ` + f.sum("increase75m")},
		RecordingRule{
			Name:   f.burning(),
			Expr:   `(` + pages + `) or on (type, name) (` + again + `)`,
			Inline: pages,
		},
		RecordingRule{Name: f.lasting("5m"), Expr: f.ratio("5m") + ` and on (type, name) ` + f.most("minutes30m") + ` >= 10` + still},
		RecordingRule{Name: f.lasting("30m"), Expr: f.ratio("30m") + ` and on (type, name) ` + f.most("slots6h") + ` >= 3` + still},
		RecordingRule{Name: f.lasting("6h"), Expr: f.ratio("6h") + ` > 0.02 and on (type, name) ` + f.most("slots6h") + ` >= 36` + still},
	)
}

// failing is the share of the calls that fail where it is worth a warning.
func (f failure) failing() string {
	return `(` + f.burning() + `
		or on (type, name) ` + f.lasting("5m") + ` > $threshold
		or on (type, name) ` + f.lasting("30m") + ` > $threshold
		or on (type, name) ` + f.lasting("6h") + `)`
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

// unreached counts the calls that failed on each API server.
var unreached = `(` + closed.on("increase2m") + ` or ` + open.on("increase2m") + `)`

// backendDown are the webhooks that no API server can call, by what the auditor
// knows of their backends.
const backendDown = `(
	max by (type, name) (last_over_time(webhook_auditor_webhook_backend_ready[5m])) == 0
	or on (type, name) group by (type, name) (last_over_time(webhook_auditor_finding{check=~"backend-unreachable|ca-bundle-invalid|ca-bundle-missing|serving-certificate"}[5m]))
)`

// backendRepaired is the record of the webhooks whose backends the auditor found
// down within what the windows hold, and no longer does.
const backendRepaired = `cluster_type_name:webhook_auditor_backend_repaired:group`

var repaired = strings.ReplaceAll(`(
				group by (type, name) (last_over_time(webhook_auditor_finding{check=~"CHECKS"}[75m]))
				unless on (type, name) group by (type, name) (last_over_time(webhook_auditor_finding{check=~"CHECKS"}[3m]))
				and on () group(last_over_time(webhook_auditor_snapshot_timestamp_seconds[3m]))
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
			clamp_max(sum by (instance) (` + unreached + `) / on (instance) sum by (instance) (` + seenIn(promql.Requests, "2m") + `), 1) > 0.95
			and on (instance) sum by (instance) (` + closed.on("increase5m") + ` or ` + open.on("increase5m") + `) >= 5
			and on (instance) (
				count by (instance) (` + unreached + ` and on (type, name) (
					` + affectedCalls("2m") + ` - on (type, name) sum by (type, name) (` + unreached + `) > on (type, name) 0.1 * ` + affectedCalls("2m") + `
				)) >= 2
				or on (instance)
				count by (instance) (group by (instance, namespace) ((` + unreached + ` unless on (type, name) ` + backendDown + `) * on (type, name) group_left (namespace) ` + backends + `)) >= 2
			)`,
	},
	{Name: backendRepaired, Expr: repaired},
	{Name: cutOff, Expr: `max_over_time(` + noneReachable + `[5m:1m])`},
	{
		Name:   afresh,
		Expr:   `group by (instance, type, name) (` + anyOn("increase2m") + `) and on (instance, type, name) ` + excluded + ` unless on (instance) ` + cutOff + ` unless on (type, name) ` + deregistered,
		Inline: `vector(0) < 0`,
	},
	// Written out a dozen times in each alert this would cost more than it saves.
	{
		Name: excluded,
		Expr: `
			group by (instance, type, name) (` + anyOn("increase6h") + `)
			and on (instance, type, name) (
				(` + anyOn("increase6h") + `) and on (instance) ` + cutOff + `
				or (` + anyOn("increase6h") + `) and on (type, name) ` + deregistered + `
				or ` + excluded + ` unless on (instance, type, name) count_over_time(` + afresh + `[8m:1m]) >= 6 unless on (instance, type, name) count_over_time(` + afresh + `[2h:1m]) >= 12
			)`,
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
		g.RecordingRules = append(g.RecordingRules, f.shares()...)
	}
	g.RecordingRules = append(g.RecordingRules, slowLongRecord, controllersStuck)
	g.Alerts = slices.Concat(failureAlerts(), latencyAlerts(), admissionAlerts(), conversionAlerts())
	return g
}
