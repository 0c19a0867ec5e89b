package rules

import (
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/observed"
)

// selectedBy are the names of the series that the rules select.
func selectedBy(t *testing.T, o Options) []string {
	t.Helper()
	rendered := must.Get(Render(RuleFile, o))(t)
	var file struct{ Groups []monitoringv1.RuleGroup }
	must.Succeed(t, yaml.Unmarshal(rendered, &file))
	var out []string
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr.String())
			if err != nil {
				t.Fatalf("%s: %v", r.Expr.String(), err)
			}
			parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
				if n, ok := node.(*parser.VectorSelector); ok {
					out = append(out, n.Name)
				}
				return nil
			})
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// family is the family of a series.
func family(series string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(series, suffix); ok && slices.Contains(observed.Exported(), base) {
			return base
		}
	}
	return series
}

// TestSignals: the alerts over what an auditor exports read all of it, and of API servers
// nothing but what those of requests would.
func TestSignals(t *testing.T) {
	ours, theirs := selectedBy(t, Options{Signals: AuditorSignals}), selectedBy(t, Options{})
	for _, name := range theirs {
		if slices.Contains(observed.Exported(), family(name)) != slices.Contains(ours, observed.ExportedName(name)) {
			t.Errorf("%s: by its family %s it is exported: %t", name, family(name), slices.Contains(observed.Exported(), family(name)))
		}
	}
	for _, exported := range observed.Exported() {
		if !slices.ContainsFunc(theirs, func(name string) bool { return family(name) == exported }) {
			t.Errorf("no rule reads %s", exported)
		}
	}
	for _, name := range ours {
		if strings.HasPrefix(name, "apiserver_") && !strings.HasPrefix(name, "apiserver_request_") {
			t.Errorf("%s is selected", name)
		}
	}
	if rendered, err := Render(RuleFile, Options{Signals: AuditorSignals}); err != nil || !strings.Contains(string(rendered), "must run with --observe=apiserver") {
		t.Errorf("the alert on missing series does not say how auditors export them: %v", err)
	}
	if rendered, err := Render(PrometheusRule, Options{Signals: AuditorSignals}); err != nil || strings.Contains(string(rendered), "WebhookResourceLatencyHigh\n") {
		t.Errorf("an alert reads the series of requests: %v", err)
	}
}
