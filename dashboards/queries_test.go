package dashboards

import (
	"bytes"
	_ "embed"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter"
	"github.com/webhook-auditor/webhook-auditor/rules"
)

//go:embed testdata/apiserver-metrics.txt
var recorded []byte

// ofItself are the series of the auditor about itself, and their labels.
var ofItself = map[string][]string{
	"evaluation_duration_seconds_bucket": {"le"},
	"watch_errors_total":                 {"group", "resource"},
	"series_dropped":                     {"family"},
	"condition_write_errors_total":       nil,
	"build_info":                         {"version", "revision", "goversion"},
}

// attached are the labels that Prometheus or a store of several clusters adds.
var attached = []string{"cluster", "instance"}

// known returns the labels of every series that a board may read.
func exportedSeries(t *testing.T) map[string][]string {
	t.Helper()
	// ALERTS carries the labels of the rules: those of CONTRACT.md, and those
	// that their expressions keep.
	out := map[string][]string{
		"ALERTS":           {"alertname", "alertstate", "severity", "namespace", "type", "name"},
		"ALERTS_FOR_STATE": {"alertname", "severity", "namespace", "type", "name"},
	}
	// Of what the rules record, the boards read one series.
	written := must.Get(rules.Render(rules.RuleFile, rules.Options{}))(t)
	if !bytes.Contains(written, []byte("record: "+recordedSeries+"\n")) {
		t.Errorf("the rules do not record %s", recordedSeries)
	}
	out[recordedSeries] = []string{"type", "configuration", "name", "namespace"}
	maps.Copy(out, map[string][]string{
		promql.SummaryFailing: nil, promql.SummarySlow: nil, promql.SummaryWithoutBackend: nil, promql.SummaryTimestamp: nil,
		promql.SummaryFindings: {"severity"}, promql.SummaryVersions: {"version"}, promql.SummaryWorstFailing: {"type", "name"}, promql.SummaryWorstLatency: {"type", "name"},
		promql.FleetRegistrations: strings.Split(promql.Variant, ", "), promql.FleetTimeouts: strings.Split(promql.RegisteredAs+", timeout", ", "), promql.FleetConfigurations: {"type", "configuration"},
	})
	for name, labels := range ofItself {
		out[exporter.Prefix+name] = labels
	}
	for _, f := range exporter.Families {
		out[f.Series()] = f.Labels
	}
	p := expfmt.NewTextParser(model.LegacyValidation)
	families := must.Get(p.TextToMetricFamilies(bytes.NewReader(recorded)))(t)
	for name, family := range families {
		labels := labelsOf(family)
		out[name] = labels // a histogram without suffix is a native one
		if family.GetType() == dto.MetricType_HISTOGRAM {
			out[name+"_bucket"] = append([]string{"le"}, labels...)
			out[name+"_sum"], out[name+"_count"] = labels, labels
		}
	}
	return out
}

func labelsOf(family *dto.MetricFamily) []string {
	var out []string
	for _, m := range family.Metric {
		for _, l := range m.Label {
			out = append(out, l.GetName())
		}
	}
	return out
}

// recordedSeries is there where the rules are loaded.
var recordedSeries, _, _ = strings.Cut(strings.TrimPrefix(rulesLoaded, "max by (cluster) ("), "{")

// query is one expression, and the labels that its panel shows.
type query struct {
	where, expr string
	labels      []string
}

var placeholder = regexp.MustCompile(`\{\{(\w+)\}\}`)

// queries returns every expression of the table: panels, annotations and
// variables, in both dialects.
func queries(t *testing.T) []query {
	t.Helper()
	var out []query
	for _, b := range Boards() {
		for _, row := range b.Rows {
			for _, p := range row.Panels {
				out = append(out, queriesOf(b.Name, p)...)
			}
		}
		for _, v := range b.Variables {
			if v.Metric != "" {
				out = append(out, query{b.Name + " $" + v.Name, v.Metric, []string{v.Value}})
			}
		}
		for _, a := range annotations(b) {
			out = append(out, query{b.Name + " annotations", a.Target.(prometheus.Dataquery).Expr, placeholders(*a.TitleFormat + *a.TextFormat)})
		}
	}
	return out
}

func queriesOf(board string, p Panel) []query {
	var out []query
	for i, q := range p.Queries {
		shown := placeholders(q.Legend)
		for _, c := range p.Columns {
			if !isLetter(c.Field) && c.Field != linkCluster.Field {
				shown = append(shown, c.Field)
			}
		}
		where := board + "/" + p.Title + "/" + letter(i)
		out = append(out, query{where, q.Expr, shown})
		if board != "fleet" {
			out = append(out, query{where + " in the console", consoleExpr(q.Expr), placeholders(consoleLegend(q.Legend))})
		}
	}
	return out
}

func placeholders(legend string) []string {
	var out []string
	for _, m := range placeholder.FindAllStringSubmatch(legend, -1) {
		out = append(out, m[1])
	}
	return out
}

// choices stands in for the variables, as a user might have set them.
var choices = strings.NewReplacer("$__rate_interval", "5m", "$__interval", "1m", "$__range", "1h", "$__from", "0",
	`=~"$type"`, `=~".*"`, `=~"${type:raw}"`, `=~".*"`, "${type:raw}", "admit", "$cluster", ".*", "$type", "admit", "$configuration", ".*", "$name", "x")

func parse(t *testing.T, expr string) parser.Expr {
	t.Helper()
	e, err := parser.NewParser(parser.Options{}).ParseExpr(choices.Replace(expr))
	if err != nil {
		t.Fatalf("%v in\n%s", err, expr)
	}
	return e
}

// TestQueries reads only what exists, by labels that it has.
func TestQueries(t *testing.T) {
	series := exportedSeries(t)
	for _, q := range queries(t) {
		t.Run(q.where, func(t *testing.T) {
			made := check(t, series, parse(t, q.expr))
			for _, label := range q.labels {
				if !slices.Contains(made, label) {
					t.Errorf("shows label %s, which no series has", label)
				}
			}
		})
	}
}

// check reports unknown series and labels below e; it returns the labels that
// the series below have, or are given.
func check(t *testing.T, series map[string][]string, e parser.Expr) []string {
	t.Helper()
	var labels []string
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		labels = append(labels, labelsOfNode(t, series, n)...)
		return nil
	})
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		for _, name := range neededLabels(n) {
			if !slices.Contains(labels, name) {
				t.Errorf("asks for label %s, which no series has: %s", name, n)
			}
		}
		return nil
	})
	return labels
}

func labelsOfNode(t *testing.T, series map[string][]string, n parser.Node) []string {
	t.Helper()
	switch n := n.(type) {
	case *parser.VectorSelector:
		labels, ok := series[n.Name]
		if !ok {
			t.Errorf("no series %q", n.Name)
		}
		labels = slices.Concat(labels, attached)
		for _, m := range n.LabelMatchers {
			// A matcher that matches nothing too does not need the label.
			if m.Name != "__name__" && !slices.Contains(labels, m.Name) && !m.Matches("") {
				t.Errorf("%s has no label %s", n.Name, m.Name)
			}
		}
		return labels
	case *parser.Call:
		if n.Func.Name == "label_replace" || n.Func.Name == "label_join" {
			return []string{n.Args[1].(*parser.StringLiteral).Val}
		}
	}
	return nil
}

func neededLabels(n parser.Node) []string {
	switch n := n.(type) {
	case *parser.AggregateExpr:
		return n.Grouping
	case *parser.BinaryExpr:
		if n.VectorMatching != nil {
			return slices.Concat(n.VectorMatching.MatchingLabels, n.VectorMatching.Include)
		}
	}
	return nil
}

// TestReplicas holds the law that two auditors do not break a board: whatever
// is read of the auditor goes through max, or group, first.
func TestReplicas(t *testing.T) {
	for _, q := range queries(t) {
		parser.Inspect(parse(t, q.expr), func(n parser.Node, path []parser.Node) error {
			v, ok := n.(*parser.VectorSelector)
			if ok && strings.HasPrefix(v.Name, "webhook_auditor_") && !strings.Contains(q.where, "$") && nearest(path) != parser.MAX && nearest(path) != parser.GROUP {
				t.Errorf("%s: %s is read without max", q.where, v.Name)
			}
			return nil
		})
	}
}

func nearest(path []parser.Node) parser.ItemType {
	for _, n := range slices.Backward(path) {
		if a, ok := n.(*parser.AggregateExpr); ok {
			return a.Op
		}
	}
	return 0
}

// TestClusters holds that a store of several clusters is asked for the chosen
// one, and that the console is asked for none.
func TestClusters(t *testing.T) {
	for _, q := range queries(t) {
		console := strings.HasSuffix(q.where, "in the console")
		if console && strings.Contains(strings.ReplaceAll(q.expr, recordedSeries, ""), "cluster") {
			t.Errorf("%s: speaks of clusters:\n%s", q.where, q.expr)
		}
		if console || strings.Contains(q.where, "$") {
			continue
		}
		parser.Inspect(parse(t, q.expr), func(n parser.Node, _ []parser.Node) error {
			v, ok := n.(*parser.VectorSelector)
			if ok && !strings.Contains(v.String(), "cluster=~") && !strings.HasPrefix(v.Name, "clusters:") { // those count clusters
				t.Errorf("%s: %s is read of all clusters", q.where, v)
			}
			return nil
		})
	}
}

// TestRates holds that charts follow the zoom and rankings the whole range.
func TestRates(t *testing.T) {
	window := regexp.MustCompile(`\[([^\]^]+)\]`)
	for _, q := range queries(t) {
		for _, m := range window.FindAllStringSubmatch(q.expr, -1) {
			if strings.Contains(q.where, "/Failure budget left/") && m[1] == "30d" {
				continue
			}
			if m[1] != "$__rate_interval" && m[1] != "$__range" && m[1] != "." {
				t.Errorf("%s: fixed window %s", q.where, m[0])
			}
		}
	}
}
