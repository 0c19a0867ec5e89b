package dashboards

import (
	"fmt"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
)

// The windows that rates are taken over. Top charts rank by the whole time
// range at its end: a plain topk would choose anew at each step and draw more
// lines than it promises.
const (
	rateWindow  = "[$__rate_interval]"
	rangeWindow = "[$__range]"
	rankWindow  = "[$__range] @ end()"
)

// topSeries is how many series a chart shows.
const topSeries = 10

// webhookLabels identify a webhook in every expression: conversions take the name
// of their CRD and the type "conversion", as the auditor's series have them.
const webhookLabels = "cluster, type, name"

// scope is the webhooks that an expression selects, and its window.
//
// Admission series have no configuration and conversion series have no type.
// A missing label is an empty one: the choice "conversion" of the variable
// type is a regular expression that matches it.
type scope struct {
	admission, conversion string
	// auditor selects the auditor's series of the same webhooks.
	auditor string
	// guard, where set, admits conversions of its own labels only.
	guard  string
	window string
}

func (s scope) withWindow(window string) scope {
	s.window = window
	return s
}

// latency returns the quantile of the seconds that each webhook takes. The
// second half answers where Prometheus keeps native histograms alone.
func (s scope) latency(quantile string) string {
	return either(
		fmt.Sprintf("histogram_quantile(%s, sum by (%s, le) (%s))", quantile, webhookLabels, s.admissions(promql.WebhookSeconds+"_bucket", "")),
		fmt.Sprintf("histogram_quantile(%s, sum by (%s, le) (%s))", quantile, webhookLabels, s.conversions("_bucket", "")),
		fmt.Sprintf("histogram_quantile(%s, sum by (%s) (%s))", quantile, webhookLabels, s.admissions(promql.WebhookSeconds, "")),
		fmt.Sprintf("histogram_quantile(%s, sum by (%s) (%s))", quantile, webhookLabels, s.conversions("", "")),
	)
}

// calls returns the calls per second of each webhook.
func (s scope) calls() string {
	return either(
		fmt.Sprintf("sum by (%s) (%s)", webhookLabels, s.admissions(promql.Requests, "")),
		s.converted(""),
	)
}

// closed returns the failures per second that refused a request. A failed
// conversion always does.
func (s scope) closed() string {
	return either(
		fmt.Sprintf("sum by (%s) (%s)", webhookLabels, s.admissions(promql.Rejections, `error_type!="no_error"`)),
		s.converted(`succeeded="false"`),
	)
}

// open returns the failures per second that let a request pass unchecked.
func (s scope) open() string {
	return fmt.Sprintf("sum by (%s) (%s)", webhookLabels, s.admissions(promql.FailedOpen, ""))
}

// failures returns all failures per second of each webhook.
func (s scope) failures() string {
	return either(
		fmt.Sprintf("sum by (%s) (\n  %s\n  or %s\n)", webhookLabels,
			s.admissions(promql.Rejections, `error_type!="no_error"`), s.admissions(promql.FailedOpen, "")),
		s.converted(`succeeded="false"`),
	)
}

// rejections returns the requests per second that each webhook refused on
// purpose.
func (s scope) rejections() string {
	return fmt.Sprintf("sum by (%s) (%s)", webhookLabels, s.admissions(promql.Rejections, `error_type="no_error"`))
}

// threshold returns the seconds from which each webhook is slow. The margin
// absorbs the rounding of a quantile that lies on a bucket's edge.
func (s scope) threshold() string {
	return fmt.Sprintf("1.001 * max by (%s) (webhook_auditor_webhook_latency_threshold_seconds{%s})", webhookLabels, s.auditor)
}

func (s scope) admissions(series, matcher string) string {
	return fmt.Sprintf("rate(%s{%s}%s)", series, join(s.admission, matcher), s.window)
}

func (s scope) converted(matcher string) string {
	return either(
		fmt.Sprintf("sum by (%s) (%s)", webhookLabels, s.conversions("_count", matcher)),
		fmt.Sprintf("histogram_count(sum by (%s) (%s))", webhookLabels, s.conversions("", matcher)),
	)
}

func (s scope) conversions(suffix, matcher string) string {
	return asWebhook(fmt.Sprintf("rate("+promql.ConversionSeconds+"%s{%s}%s)",
		suffix, join(s.conversion, matcher), s.window)) + s.guard
}

// asWebhook gives conversion series the labels of a webhook's series.
func asWebhook(expr string) string {
	return fmt.Sprintf(`label_replace(label_replace(%s, "name", "$1", "crd_name", "(.+)"), "type", "conversion", "", "")`, expr)
}

// ratio divides each series by its counterpart, where there is one. The parts
// are counted in other series than the whole, so that a scrape or an
// extrapolation between them could make more than all of it.
func ratio(part, whole string) string {
	return fmt.Sprintf("clamp_max((%s) / ((%s) > 0), 1)", part, whole)
}

// overallRatio divides the sums. A part that never happened has no series: it is 0.
func overallRatio(part, whole string) string {
	return fmt.Sprintf("clamp_max((sum(%s) or 0 * sum(%s))\n/ (sum(%s) > 0), 1)", part, whole, whole)
}

// topBy returns the series of now that lead the ranking of the whole range.
func topBy(now, ranking, labelNames string) string {
	return fmt.Sprintf("(%s)\nand on (%s) topk(%d, (%s) > 0)", now, labelNames, topSeries, ranking)
}

// countOrZero counts the series of expr; it is 0 only where all has series: a
// number that was not measured must not look like good news.
func countOrZero(expr, all string) string {
	return fmt.Sprintf("count(%s)\nor 0 * count(%s)", expr, all)
}

func either(exprs ...string) string { return strings.Join(exprs, "\nor ") }

func join(matchers ...string) string {
	return strings.Join(slices.DeleteFunc(matchers, func(m string) bool { return m == "" }), ",")
}

// waitTime returns the seconds per second that requests wait for each webhook.
func (s scope) waitTime() string {
	return either(
		fmt.Sprintf("sum by (%s) (%s)", webhookLabels, s.admissions(promql.WebhookSeconds+"_sum", "")),
		fmt.Sprintf("sum by (%s) (%s)", webhookLabels, s.conversions("_sum", "")),
		fmt.Sprintf("histogram_sum(sum by (%s) (%s))", webhookLabels, s.admissions(promql.WebhookSeconds, "")),
		fmt.Sprintf("histogram_sum(sum by (%s) (%s))", webhookLabels, s.conversions("", "")),
	)
}

// withDefault gives the label a text where it is missing: Prometheus leaves empty
// labels out, and with them a table's column.
func withDefault(expr, label, text string) string { return withLabel(expr, label, text, label) }

// withLabel sets the label to the text on series without the label absent.
func withLabel(expr, label, text, absent string) string {
	return fmt.Sprintf(`label_replace(%s, %q, %q, %q, "")`, expr, label, text, absent)
}

// orNone adds a row whose label has the text none where there are no rows but
// measured has series: without a measurement the table stays empty.
func orNone(rows, measured, label, none string) string {
	return rows + "\nor on () " + withLabel(fmt.Sprintf("(0 * max(%s))", measured), label, none, label)
}

// lookup adds labels to rows, by the labels key: all is 1 for each that rows can be
// about. Grafana joins answers only where each has series, so that queries do it.
type lookup struct{ key, all string }

// labels adds labels of the expression from, if there are any; of several series,
// one stands for all.
func (l lookup) labels(rows, labels, expression string) string {
	return fmt.Sprintf("(%s)\n* on (%[2]s) group_left (%[3]s) (topk by (%[2]s) (1, %[4]s) or on (%[2]s) (%[5]s))", rows, l.key, labels, expression, l.all)
}

// number adds the values of from as a label.
func (l lookup) number(rows, label, expression string) string {
	return withDefault(l.labels(rows, label, asLabel("round("+expression+", 0.001)", l.key, label)), label, "-")
}

// asLabel is 1 for each series of expr, whose value becomes a label. The console
// sorts rows by labels alone.
func asLabel(expr, labelName, label string) string {
	return fmt.Sprintf("count_values by (%s) (%q, %s)", labelName, label, expr)
}

// orUnknown adds a series of the state unknown where there is no other: Grafana has no
// words for a timeline without time.
func orUnknown(states string) string { return states + "\nor on () vector(-1)" }

// unknownState is what orUnknown adds.
var unknownState = Text{"-1", "unknown", grey}

// withLinkCluster adds the label "at", the cluster as links to other boards name it:
// the choice "All" stands for series without a cluster.
func withLinkCluster(expr string) string {
	expr = fmt.Sprintf(`label_replace(%s, "at", "$1", "cluster", "(.+)")`, expr)
	return withLabel(expr, "at", "All", "cluster")
}
