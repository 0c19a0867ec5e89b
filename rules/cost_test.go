package rules

import (
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/golden"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/internal/promql"
)

// costly is the sentence of the README of what TestCost measures.
var costly = regexp.MustCompile(`(?s)(<!-- Measured by TestCost -->\n).*?\n\n`)

// TestCost counts the samples that Prometheus reads for all of these rules, and for those of the API
// server that kube-prometheus ships, over the same series: a webhook of twelve fails, another is slow.
// There are six hours of them, so that the rules of others, which look back for days, seem to read less.
func TestCost(t *testing.T) {
	t.Parallel()
	const last = 6 * 60
	stored := scrapedInto(t, minute, parsed(t, expectation{scrape: 1, last: last, traces: costlyCluster()}.lines()))
	ours := evaluateOn(t, groupFile(t, silentGroupsOf(t, allNames()...)), minute, stored)
	ours.now = minutes(last - 45)
	ours.until(minutes(last))
	var file monitoringv1.PrometheusRuleSpec
	must.Succeed(t, yaml.UnmarshalStrict(must.Get(os.ReadFile("testdata/kube-apiserver.yaml"))(t), &file))
	theirs := evaluateOn(t, groupFile(t, file.Groups), minute, stored)
	theirs.now = minutes(last)
	theirs.until(minutes(last))
	share := ours.samples(t, minutes(last)) / theirs.samples(t, minutes(last))
	if share > 0.1 {
		t.Errorf("all groups read %.3f of the samples of kubernetes-mixin, want a tenth at most", share)
	}
	text := must.Get(os.ReadFile("README.md"))(t)
	said := fmt.Sprintf("Each minute all groups read %.1f %% of the samples that the API server's groups of kubernetes-mixin read over the same series, as kube-prometheus ships them.\n", 100*share)
	golden.Compare(t, "../README.md", costly.ReplaceAll(text, []byte("${1}"+said+"\n")))
}

// samples are how many all rules read each minute.
func (p *evaluator) samples(t *testing.T, at time.Duration) (read float64) {
	t.Helper()
	for _, g := range p.groups {
		for _, r := range g.Rules() {
			query := must.Get(engine(t).NewInstantQuery(t.Context(), p.storage, nil, r.Query().String(), time.Unix(0, 0).Add(at)))(t)
			must.Succeed(t, query.Exec(t.Context()).Err)
			read += float64(query.Stats().Samples.TotalSamples) * float64(minute) / float64(max(g.Interval(), minute))
			query.Close()
		}
	}
	return read
}

// costlyCluster is what three API servers count of twelve webhooks, and of requests of thirty kinds.
func costlyCluster() []trace {
	out := []trace{seesAll, stays(gcErrors+`{instance="k"}`, 0), stays(longestRun+`{instance="k",name="namespace"}`, 0), stays(queued+`{instance="k",name="namespace"}`, 0)}
	for n := range 12 {
		named := func(t trace) trace { return t.renamed(`name="w"`, fmt.Sprintf(`name="w%d"`, n)) }
		out = append(out, each("", named, []trace{limited(knownHook, 1), info, reach})...)
		for _, instance := range []string{"a", "b", "c"} {
			failing, quick := 0, 60.0
			switch n {
			case 0:
				failing = 30
			case 1:
				quick = 40
			}
			traces := calls("a", "CREATE", 60, neverFails)
			traces = append(traces[:1], counts(requested("503"), since(last45, failing)), counts(rejected("calling_webhook_error"), since(last45, failing)))
			for i, edge := range admissionEdges {
				per := quick
				if i > 4 {
					per = 60
				}
				traces = append(traces, grows(promql.WebhookSeconds+`_bucket{`+calledHook+`,rejected="false",le="`+edge+`"}`, per))
			}
			traces = append(traces, grows(promql.WebhookSeconds+`_count{`+calledHook+`,rejected="false"}`, 60), grows(promql.WebhookSeconds+`_sum{`+calledHook+`,rejected="false"}`, 2))
			out = append(out, each("", func(t trace) trace { return named(t).renamed(`instance="a"`, `instance="`+instance+`"`) }, traces)...)
		}
	}
	return append(out, requestsOfAll()...)
}

// last45 is when calls begin to fail.
const last45 = 6*60 - 45

// requestsOfAll are the series of requests, with the edges that their histograms have.
func requestsOfAll() []trace {
	var out []trace
	for _, instance := range []string{"a", "b", "c"} {
		for n := range 30 {
			of := fmt.Sprintf(`job="apiserver",instance=%q,verb=%q,group="",version="v1",resource="r%d",subresource="",scope="resource"`, instance, []string{"GET", "LIST", "POST"}[n%3], n)
			out = append(out, grows(`apiserver_request_total{`+of+`,code="200"}`, 60), grows(sliDuration+`_count{`+of+`}`, 60), grows(sliDuration+`_sum{`+of+`}`, 6),
				grows(fullDuration+`_count{`+of+`}`, 60), grows(fullDuration+`_sum{`+of+`}`, 6))
			for _, edge := range []string{"0.05", "0.1", "0.2", "0.4", "0.6", "0.8", "1", "1.25", "1.5", "2", "3", "4", "5", "6", "8", "10", "15", "20", "30", "45", "60", "+Inf"} {
				out = append(out, grows(sliDuration+`_bucket{`+of+`,le="`+edge+`"}`, 60))
			}
		}
		out = append(out, grows(scraped+`{instance="`+instance+`"}`, 60))
	}
	return out
}
