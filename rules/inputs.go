package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// An input is something that alerts read and that may be missing.
type input struct {
	// series names it: a series, with a label or an edge of a histogram.
	series string
	// where is what only exists where the input must exist as well.
	where string
	// expr is the input; "" stands for an input that where lacks.
	expr string
}

const (
	anyAuditor = `last_over_time(webhook_auditor_snapshot_timestamp_seconds[5m])`

	anyRequest   = `apiserver_request_total{resource="leases"}`
	sliDuration  = `apiserver_request_sli_duration_seconds`
	fullDuration = `apiserver_request_duration_seconds`
	gcErrors     = `garbagecollector_controller_resources_sync_error_total`
	longestRun   = `workqueue_longest_running_processor_seconds`
	queued       = `workqueue_depth`
)

// The records of whether any calls are counted, and any API server is scraped.
const (
	timedCalls   = promql.WebhookSeconds + `_count`
	countedCalls = `cluster:webhook_auditor_admission_request:group`
	watching     = `cluster:webhook_auditor_apiserver:group`
)

var inputRecords = []RecordingRule{
	{Name: watching, Asks: "Is any API server scraped?", Expr: `group(` + scraped + `)`},
	{Name: countedCalls, Asks: "Are calls counted?", Expr: `group(` + promql.Requests + `)`},
}

// inputs are what is checked. Series of single webhooks exist only once one was called, so each is looked
// for where one exists that is born together with it, and the first, and those of kube-controller-manager,
// where an auditor runs. With a scrape that fails, an API server's series go together, but the auditor's
// stay: what is compared with those is looked for over 5 minutes.
func inputs() []input {
	out := []input{
		{scraped, anyAuditor, `last_over_time(` + scraped + `[5m])`},
		{gcErrors, anyAuditor, `last_over_time(` + gcErrors + `[5m])`},
		{longestRun, anyAuditor, `last_over_time(` + longestRun + `{name="namespace"}[5m])`},
		{queued, anyAuditor, `last_over_time(` + queued + `{name="namespace"}[5m])`},
		{promql.Requests, timedCalls, countedCalls},
		{promql.Rejections, promql.Requests + `{rejected="true"}`, promql.Rejections},
		{promql.FailedOpen, promql.Requests + `{rejected="false", code=~"[45].."}`, promql.FailedOpen},
		{promql.WebhookSeconds + `_count`, countedCalls, timedCalls},
		{
			promql.ConversionSeconds + `_count or ` + promql.ConversionSeconds + `_bucket`,
			promql.ConversionRequests + `{result="success"} or (last_over_time(webhook_auditor_webhook_info{type="conversion"}[5m]) unless on () group(` + promql.ConversionRequests + `))`,
			promql.ConversionSeconds + `_count and on () ` + promql.ConversionSeconds + `_bucket`,
		},
		{sliDuration + `_sum or ` + sliDuration + `_count`, anyRequest, sliDuration + `_sum{resource="leases"} and ` + sliDuration + `_count{resource="leases"}`},
		{fullDuration + `_sum`, anyRequest, fullDuration + `_sum{resource="leases"}`},
	}
	// The start of one that restarts again and again only grows.
	out = append(out, input{severalServers, `resets(` + scraped + `[30m]) > 3 unless on (instance) (resets(process_start_time_seconds[30m]) == 0)`, ""})
	// "1" and "1.0" are the same edge.
	edges := `count(count by (edge) (label_replace(
		group by (le) (` + promql.WebhookSeconds + `_bucket{le=~"0.1|0.5|1|1.0|2.5|10|10.0"}), "edge", "$1", "le", "([0-9.]+?)(?:[.]0)?"))) >= 5`
	out = append(out, input{promql.WebhookSeconds + `_bucket{le=~0.1|0.5|1|2.5|10}`, timedCalls, edges})
	for _, names := range [][]string{
		{promql.Requests, "name", "type", "code", "rejected", "instance"},
		{promql.Rejections, "name", "type", "error_type", "instance"},
		{promql.FailedOpen, "name", "type", "instance"},
		{promql.ConversionSeconds + `_count`, "crd_name", "succeeded", "instance"},
	} {
		others := lists.Map(names[1:], func(name string) string { return fmt.Sprintf(`%s{%s=""}`, names[0], name) })
		out = append(out, input{`label ` + strings.Join(names[1:], " or ") + ` of ` + names[0], strings.Join(others, " or "), ""})
	}
	return out
}

// severalServers names the input that is missing where a scrape meets one API server and
// the next another: their counters jump, and no outage shows.
const severalServers = "each of several API servers behind one address"

// missing is the record of the inputs that are missing: one series for each.
const missing = `cluster_series:webhook_auditor_input_missing:group`

// missingCauses is why an input is missing.
const missingCauses = `Hosted control planes often do not expose it, and scrape configurations drop it. A Prometheus that keeps native histograms alone has no _bucket, _sum or _count: set always_scrape_classic_histograms.`

// inputsGroup says which inputs are missing.
func inputsGroup() Group {
	g := Group{Name: "webhook-auditor-inputs", Interval: 5 * time.Minute, RecordingRules: slices.Clone(inputRecords), Alerts: []Alert{
		{
			Name: "WebhookInputMetricsMissing", Asks: "Which series of API servers do the alerts lack?",
			Severity: classify.Warning, For: 15 * time.Minute,
			Expr:        missing,
			Summary:     `Alerts on webhooks are blind: {{ $labels.series }} is missing.`,
			Description: `{{ if eq $labels.series "` + severalServers + `" }}Several API servers answer behind one address: their counters jump, so that no outage shows. Scrape each by itself, or have the auditor export their counters: see the runbook.{{ else }}The webhook auditor runs, but Prometheus lacks {{ $labels.series }}: no alert that reads it can fire. ` + missingCauses + `{{ end }} Is it there? "kubectl get --raw /metrics | grep -c ^apiserver_admission".`,
		},
	}}
	for _, i := range inputs() {
		g.RecordingRules = append(g.RecordingRules, i.missing())
	}
	return g
}

// missing records that the input is missing.
func (i input) missing() RecordingRule {
	lacks := `group(` + i.where + `)`
	if i.expr != "" {
		lacks += ` unless on () group(` + i.expr + `)`
	}
	return RecordingRule{Name: missing, Asks: "Is " + i.series + " missing?", Expr: lacks, Labels: map[string]string{"series": i.series}}
}

// selected are the names of the series that an expression selects. One that cannot be
// parsed selects none: rendering it returns the error.
func selected(expr string) []string {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(placedNumber.ReplaceAllString(expr, "1"))
	if err != nil {
		return nil
	}
	var out []string
	for _, selectors := range parser.ExtractSelectors(parsed) {
		for _, m := range selectors {
			if m.Name == model.MetricNameLabel {
				out = append(out, m.Value)
			}
		}
	}
	return out
}
