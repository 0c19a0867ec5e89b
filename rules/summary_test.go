package rules

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/internal/promql"
)

// summaryOf evaluates the summary over series, and returns its values by series.
func summaryOf(t *testing.T, series ...string) map[string]float64 {
	t.Helper()
	return recordsOf(t, RenderSummary, Options{}, series)
}

// recordsOf evaluates rules over series, and returns the values of their records.
func recordsOf(t *testing.T, render func(Form, Options) ([]byte, error), o Options, series []string) map[string]float64 {
	t.Helper()
	p := evaluateFile(t, must.File(t, "rules.yaml", string(must.Get(render(RuleFile, o))(t))), tick, series)
	at := 10 * time.Minute
	p.until(at)
	q := must.Get(p.storage.Querier(at.Milliseconds(), at.Milliseconds()))(t)
	defer q.Close()
	found, values := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, "__name__", "cluster.*:.*")), map[string]float64{}
	for found.Next() {
		s := found.At()
		it := s.Iterator(nil)
		for it.Next() != 0 {
			if _, v := it.At(); !value.IsStaleNaN(v) {
				values[s.Labels().String()] = v
			}
		}
	}
	if found.Err() != nil {
		t.Fatal(found.Err())
	}
	return values
}

// busy are the series of two clusters, of 30 webhooks each: all fail in cluster a.
func busy() []string {
	var out []string
	for _, cluster := range []string{"a", "b"} {
		for i := range 30 {
			of := fmt.Sprintf(`cluster=%q,type="validating",name="w%02d"`, cluster, i)
			out = append(
				out,
				`webhook_auditor_webhook_info{configuration="c",`+of+`} 1x30`,
				`webhook_auditor_webhook_backend_ready{configuration="c",`+of+`} `+map[string]string{"a": "0", "b": "1"}[cluster]+`x30`,
				`webhook_auditor_webhook_latency_threshold_seconds{`+of+`} 0.1x30`,
				`apiserver_admission_webhook_request_total{code="200",instance="1",operation="CREATE",rejected="false",`+of+`} 0+100x30`,
				`apiserver_admission_webhook_admission_duration_seconds_bucket{instance="1",le="0.5",operation="CREATE",rejected="false",`+of+`} 0+99x30`,
				`apiserver_admission_webhook_admission_duration_seconds_bucket{instance="1",le="+Inf",operation="CREATE",rejected="false",`+of+`} 0+100x30`,
			)
			if cluster == "a" {
				out = append(out, fmt.Sprintf(`apiserver_admission_webhook_fail_open_count{instance="1",%s} 0+%dx30`, of, i+1))
			}
		}
		for _, version := range []string{"1.0.0", "1.1.0", "1.2.0"} {
			out = append(out, fmt.Sprintf(`webhook_auditor_build_info{cluster=%q,version=%q} 1x30`, cluster, version))
		}
		for _, severity := range []string{"critical", "warning", "info"} {
			out = append(out, fmt.Sprintf(`webhook_auditor_findings{cluster=%q,severity=%q,acknowledged="false",instance="1"} 7x30`, cluster, severity),
				fmt.Sprintf(`webhook_auditor_findings{cluster=%q,severity=%q,acknowledged="false",instance="2"} 7x30`, cluster, severity))
		}
		out = append(out, fmt.Sprintf(`webhook_auditor_snapshot_timestamp_seconds{cluster=%q} 5x30`, cluster))
	}
	return out
}

// TestSummary: whatever a cluster has, its summary is small, and each number is that
// of its cluster.
func TestSummary(t *testing.T) {
	values := summaryOf(t, busy()...)
	perCluster := map[string]int{}
	for series := range values {
		perCluster[regexp.MustCompile(`cluster="(.)"`).FindStringSubmatch(series)[1]]++
	}
	if perCluster["a"] > SummarySeries || perCluster["a"] < 15 || perCluster["b"] > SummarySeries {
		t.Errorf("series by cluster: %v, want %d at most: %q", perCluster, SummarySeries, slices.Sorted(maps.Keys(values)))
	}
	for series, want := range map[string]float64{
		`{__name__="` + promql.SummaryWebhooks + `", cluster="b"}`:                                    30,
		`{__name__="` + promql.SummarySlow + `", cluster="a"}`:                                        30,
		`{__name__="` + promql.SummaryWithoutBackend + `", cluster="a"}`:                              30,
		`{__name__="` + promql.SummaryWithoutBackend + `", cluster="b"}`:                              0,
		`{__name__="` + promql.SummaryFindings + `", cluster="a", severity="warning"}`:                7,
		`{__name__="` + promql.SummaryTimestamp + `", cluster="a"}`:                                   5,
		`{__name__="` + promql.SummaryWorstFailing + `", cluster="a", name="w29", type="validating"}`: 0.3,
	} {
		if got, ok := values[series]; !ok || got < want-0.001 || got > want+0.001 {
			t.Errorf("%s is %v (%t), want %v", series, got, ok, want)
		}
	}
}

// TestFailingWebhooks: the summary counts the webhooks whose failures the alerts report, for as long as they do.
func TestFailingWebhooks(t *testing.T) {
	t.Parallel()
	passing := passed(partly(often(60), duringMinutes(60, 1000, often(30))))
	renamed := func(traces []trace) []trace { return renamedAll(traces[:3], `name="w"`, `name="v"`) }
	failing := partly(often(60), duringMinutes(60, 1000, often(18)))
	world := map[string]struct {
		traces []trace
		// From minute 60 to begins there is none, then so many until ends, and none again.
		begins, ends, count int
	}{
		"an outage of two minutes":              {rollout(180, 1000, 2), 200, 0, 0},
		"one of three minutes":                  {rollout(180, 1000, 3), 200, 0, 0},
		"one in 200 fails":                      {rollout(180, 200, 0), 200, 0, 0},
		"a third fails":                         {failing, 75, 200, 1},
		"a third fails for half an hour":        {partly(often(60), duringMinutes(60, 90, often(18))), 75, 90, 1},
		"a third of two webhooks":               {append(renamed(failing), failing...), 75, 200, 2},
		"a third is refused, and a half passes": {append(passing, failing...), 75, 200, 1},
		"half passes":                           {passing, 75, 200, 1},
		"half of the conversions fail":          {conversionsOf(often(60), duringMinutes(60, 1000, often(30))), 75, 200, 1},
		"each CREATE, a twelfth of the calls":   {hides(calls("a", "CREATE", 18, from60)...), 75, 200, 1},
		"three calls fail, none is answered":    {neverCalledBefore(), 100, 145, 1},
		"the configuration is deleted":          {deleted(60), 75, 99, 1},
		"all is answered":                       {partly(often(60), often(0)), 200, 0, 0},
	}
	series := map[string][]string{}
	for name, row := range world {
		series[name] = expectation{traces: append(slices.Clip(row.traces), counts(scraped+`{instance="a"}`, since(0, 1))), scrape: 1, last: 200}.lines()
	}
	groups := append(silentGroupsOf(t, strings.Fields(onCalls())...), plain(must.Get(Options{}.rendered([]Group{summaryGroup()}))(t))...)
	p := evaluateFile(t, groupFile(t, groups), minute, inClusters(series))
	p.evaluateSpan(minutes(10), minutes(200), minute)
	counted := must.Get(must.Get(p.engine.NewRangeQuery(t.Context(), p.storage, nil, promql.SummaryFailing, time.Unix(0, 0).Add(minutes(60)), time.Unix(0, 0).Add(minutes(200)), minute))(t).Exec(t.Context()).Matrix())(t)
	if len(counted) != len(world) {
		t.Errorf("%d clusters count their failing webhooks, want %d", len(counted), len(world))
	}
	for _, cluster := range counted {
		name := cluster.Metric.Get("cluster")
		row := world[name]
		for _, point := range cluster.Floats {
			at := int(point.T / minute.Milliseconds())
			over := row.ends + 15
			if isThere := at >= row.begins && at <= row.ends; isThere && int(point.F) != row.count || !isThere && (at <= 60 || at > over) && point.F != 0 || int(point.F) > row.count {
				t.Errorf("%s: after %d minutes %v fail", name, at, point.F)
				break
			}
		}
	}
}

// TestSummaryOfNothing: what is not measured is unknown and never 0.
func TestSummaryOfNothing(t *testing.T) {
	if got := summaryOf(t, `up{cluster="a"} 1x30`); len(got) > 0 {
		t.Errorf("recorded of nothing: %v", got)
	}
	got := summaryOf(t, `apiserver_admission_webhook_request_total{cluster="a",type="validating",name="w"} 0+1x30`)
	if len(got) != 1 { // slow: the API servers say so; all else the auditor or the rules of the alerts do
		t.Errorf("without an auditor: %v", got)
	}
}

// TestFleetForms: rules of many clusters are in the forms of rules, and name what they
// refuse.
func TestFleetForms(t *testing.T) {
	for flag, render := range map[string]func(Form, Options) ([]byte, error){"--fleet-summary": RenderSummary, "--fleet-central": RenderCentral} {
		for _, form := range []Form{PrometheusRule, RuleFile} {
			if out, err := render(form, Options{}); err != nil || !strings.Contains(string(out), "- record: cluster") {
				t.Errorf("%s, %s: %v", flag, form, err)
			}
		}
		for _, test := range []struct {
			form    Form
			options Options
			want    string
		}{
			{Markdown, Options{}, "with " + flag},
			{"acm", Options{}, "must be one of"},
			{RuleFile, Options{Selector: `a="b"`}, "--selector"},
			{RuleFile, Options{ClusterLabel: "-"}, "--cluster-label"},
			{RuleFile, Options{Thresholds: map[string]float64{"pageShare": 0.3}}, "--threshold: pageShare: nothing that is printed depends on it"},
			{RuleFile, Options{Critical: []string{"WebhookSlow"}}, "--critical: WebhookSlow is not printed"},
		} {
			if _, err := render(test.form, test.options); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s, %s, %+v: %v, want %s", flag, test.form, test.options, err, test.want)
			}
		}
	}
}

// TestMatchers: what the page of other systems matches is the summary, and nothing else that
// the rules record.
func TestMatchers(t *testing.T) {
	page := must.Get(os.ReadFile("FLEET.md"))(t)
	names := map[string]bool{}
	for _, g := range append(Groups(), summaryGroup()) {
		for _, r := range g.RecordingRules {
			names[r.Name] = g.Name == summaryGroup().Name
		}
	}
	matchers := regexp.MustCompile(`cluster:webhook_auditor_\(.+\(p99_top3\|top5\)`).FindAllString(string(page), -1)
	if len(matchers) != 3 {
		t.Errorf("found %q, want a list and two that quote it", matchers)
	}
	for _, matcher := range matchers {
		keep := regexp.MustCompile("^(?:" + matcher + ")$")
		for name, wanted := range names {
			if keep.MatchString(name) != wanted {
				t.Errorf("%s is sent: want %t", name, wanted)
			}
		}
	}
	for _, entry := range regexp.MustCompile(`__name__="(.+)"}`).FindAllStringSubmatch(string(page), -1) {
		if !names[entry[1]] {
			t.Errorf("%s is not of the summary", entry[1])
		}
	}
}

// TestRuleFiles: Thanos and Mimir read alerts and summary as Prometheus' own parser
// does, but for what is theirs.
func TestRuleFiles(t *testing.T) {
	for _, render := range []func(Form, Options) ([]byte, error){Render, RenderSummary, RenderCentral} {
		for form, theirs := range map[Form]string{Thanos: "partial_response_strategy: warn\n", Mimir: "namespace: webhook-auditor\n"} {
			out := must.Get(render(form, Options{}))(t)
			text := string(out)
			if !strings.Contains(text, theirs) {
				t.Errorf("%s lacks %s", form, theirs)
			}
			plain := regexp.MustCompile(`(?m)^ *`+regexp.QuoteMeta(theirs)).ReplaceAllString(text, "")
			if _, errs := rulefmt.Parse([]byte(plain), false, model.LegacyValidation, parser.NewParser(parser.Options{}), promslog.NewNopLogger()); len(errs) > 0 {
				t.Errorf("%s: %v", form, errs[0])
			}
		}
	}
}

// TestCentral: clusters are counted by how a webhook is registered there, whichever label
// distinguishes them, and each once.
func TestCentral(t *testing.T) {
	var series []string
	for cluster, policy := range map[string]string{"a": "Fail", "b": "Fail", "c": "Ignore"} {
		for _, instance := range []string{"1", "2"} {
			of := fmt.Sprintf(`type="admit",configuration="mesh",name="w",site=%q,instance=%q`, cluster, instance)
			series = append(series, fmt.Sprintf(`webhook_auditor_webhook_info{failure_policy=%q,%s} 1x30`, policy, of),
				fmt.Sprintf(`webhook_auditor_webhook_timeout_seconds{%s} %dx30`, of, len(policy)))
		}
	}
	want := map[string]float64{
		`{__name__="clusters:webhook_auditor_webhook_info:count", configuration="mesh", failure_policy="Fail", name="w", type="admit"}`:         2,
		`{__name__="clusters:webhook_auditor_webhook_info:count", configuration="mesh", failure_policy="Ignore", name="w", type="admit"}`:       1,
		`{__name__="clusters:webhook_auditor_webhook_timeout_seconds:count_values", configuration="mesh", name="w", timeout="4", type="admit"}`: 2,
		`{__name__="clusters:webhook_auditor_webhook_timeout_seconds:count_values", configuration="mesh", name="w", timeout="6", type="admit"}`: 1,
		`{__name__="clusters:webhook_auditor_configurations:count", configuration="mesh", type="admit"}`:                                        3,
	}
	expect.Equal(t, want, recordsOf(t, RenderCentral, Options{ClusterLabel: "site"}, series))
}
