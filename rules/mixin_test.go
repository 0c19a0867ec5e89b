package rules

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-jsonnet"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/webhook-auditor/webhook-auditor/dashboards"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// mixin is what jsonnet makes of the mixin.
type mixin struct {
	Alerts, Rules monitoringv1.PrometheusRuleSpec
	Boards        map[string]map[string]any
}

func evaluateMixin(config string) (mixin, error) {
	var out mixin
	vm := jsonnet.MakeVM()
	vm.Importer(&jsonnet.FileImporter{JPaths: []string{"."}})
	text, err := vm.EvaluateAnonymousSnippet("test.jsonnet", `
		local mixin = (import 'mixin.libsonnet') + { _config+:: `+config+` };
		{ alerts: mixin.prometheusAlerts, rules: mixin.prometheusRules, boards: mixin.grafanaDashboards }`)
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal([]byte(text), &out)
}

// TestMixin holds that the mixin and "print rules" make the same of the same
// options.
func TestMixin(t *testing.T) {
	halved := map[string]float64{} // or the lowest
	for _, n := range Numbers {
		halved[n.Name] = max(n.Value/2, n.Lowest)
	}
	thresholds := must.Get(json.Marshal(halved))(t)
	for config, o := range map[string]Options{
		`{}`: {},
		`{clusterLabel: 'fleet', severities: 'enhancement', pageURL: 'https://auditor.example.com/'}`: {ClusterLabel: "fleet", Severities: EnhancementSeverities, PageURL: "https://auditor.example.com/"},
		`{selector: 'env!="test",region="one"', runbookBaseURL: 'https://example.com/books', alertLabels: {team: 'platform'}, disabled: ['WebhookSlow'], critical: ['WebhookFailingOpen']}`: {
			Selector: `env!="test",region="one"`, RunbookBaseURL: "https://example.com/books", Labels: map[string]string{"team": "platform"},
			Disabled: []string{"WebhookSlow"}, Critical: []string{"WebhookFailingOpen"},
		},
		`{thresholds: ` + string(thresholds) + `}`:                         {Thresholds: halved},
		`{thresholds: {WebhookRejectionsHigh: 0.25}, clusterLabel: 'one'}`: {Thresholds: map[string]float64{"WebhookRejectionsHigh": 0.25}, ClusterLabel: "one"},
	} {
		t.Run(config, func(t *testing.T) {
			t.Parallel()
			got := must.Get(evaluateMixin(config))(t)
			groups := must.Get(o.groups())(t)
			alerts, records := comparable(t, plain(groups))
			gotAlerts, none := comparable(t, got.Alerts.Groups)
			noneEither, gotRecords := comparable(t, got.Rules.Groups)
			if diff := cmp.Diff(alerts, gotAlerts); diff != "" || len(none) > 0 {
				t.Errorf("alerts (-print rules +mixin):\n%s", diff)
			}
			if diff := cmp.Diff(records, gotRecords); diff != "" || len(noneEither) > 0 {
				t.Errorf("records (-print rules +mixin):\n%s", diff)
			}
			compareBoards(t, got, o)
		})
	}
}

// compareBoards wants the boards that are printed.
func compareBoards(t *testing.T, got mixin, o Options) {
	t.Helper()
	files := must.Get(dashboards.Render(dashboards.JSON, dashboards.Options{PageURL: o.PageURL}))(t)
	if len(got.Boards) != len(files) {
		t.Errorf("%d boards, want %d", len(got.Boards), len(files))
	}
	for name, text := range files {
		var want map[string]any
		must.Succeed(t, json.Unmarshal(text, &want))
		board := "webhook-auditor-" + name
		if name == "auditor.json" {
			board = "webhook-auditor.json"
		}
		if diff := cmp.Diff(want, got.Boards[board]); diff != "" {
			t.Errorf("%s (-print dashboards +mixin):\n%s", board, diff)
		}
	}
}

// comparable are the rules as texts, without differences in white space.
func comparable(t *testing.T, groups []monitoringv1.RuleGroup) (alerts, records []string) {
	t.Helper()
	for _, g := range groups {
		every := ""
		if g.Interval != nil {
			every = string(*g.Interval)
		}
		for _, r := range g.Rules {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr.String())
			if err != nil {
				t.Fatalf("%s%s: %v", r.Record, r.Alert, err)
			}
			if r.Record != "" {
				records = append(records, fmt.Sprintln(r.Record, expr, every))
				continue
			}
			annotations := strings.Join(strings.Fields(ordered(fmt.Sprint(r.Annotations))), "")
			alerts = append(alerts, fmt.Sprintln(r.Alert, expr, every, *r.For, keeps(r), r.Labels, annotations))
		}
	}
	return alerts, records
}

var (
	templateQuery  = regexp.MustCompile("query \\(printf `([^`]*)`((?: \\$labels\\.\\w+)*)\\)")
	seriesMatchers = regexp.MustCompile(`\{[^{}]+\}`)
)

// ordered writes the labels into the queries of a template, and their matchers
// in order: where labels are renamed, Prometheus orders them in another way.
func ordered(template string) string {
	return templateQuery.ReplaceAllStringFunc(template, func(query string) string {
		parts := templateQuery.FindStringSubmatch(query)
		text := parts[1]
		for label := range strings.FieldsSeq(parts[2]) {
			text = strings.Replace(text, "%q", label, 1)
		}
		return seriesMatchers.ReplaceAllStringFunc(text, func(matchers string) string {
			all := strings.Split(strings.Trim(matchers, "{}"), ",")
			slices.Sort(all)
			return strings.Join(all, ",")
		})
	})
}

func keeps(r monitoringv1.Rule) string {
	if r.KeepFiringFor == nil {
		return ""
	}
	return string(*r.KeepFiringFor)
}

// TestMixinRefusesOptions holds that an error names what is wrong.
func TestMixinRefusesOptions(t *testing.T) {
	for config, want := range map[string]string{
		`{disabled: ['WebhookSlow'], critical: ['WebhookSlow']}`:                    `critical alert "WebhookSlow": it is disabled`,
		`{disabled: ['WebhookErrorsExplained'], thresholds: {explainedShare: 0.3}}`: `threshold of explainedShare: each alert that depends on it is disabled`,
		`{severities: 'mine'}`:                                     `severities "mine"`,
		`{disabled: ['WebhookNone']}`:                              `disabled alert "WebhookNone"`,
		`{critical: ['WebhookNone']}`:                              `critical alert "WebhookNone"`,
		`{thresholds: {WebhookAuditorDown: 0.1}}`:                  `threshold of "WebhookAuditorDown": there is no such number`,
		`{thresholds: {WebhookSlow: 0.005}}`:                       `threshold of WebhookSlow: must be at least 0.01, the lowest that works, and at most 0.99`,
		`{thresholds: {pageShare: 0.05}}`:                          `threshold of pageShare: must be at least 0.06, the lowest that works, and at most 0.99`,
		`{thresholds: {pageShare: 0.1, WebhookFailingOpen: 0.15}}`: `threshold of WebhookFailingOpen: must be at least 0.01, the lowest that works, and at most 0.1`,
	} {
		if _, err := evaluateMixin(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", config, err, want)
		}
	}
}
