package rules

import (
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/golden"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/internal/promql"
)

// ofMixin are the samples that the kube-apiserver groups of kubernetes-mixin read each minute of the
// series of costlyCluster, at its commit aa38e2bfa7ea with kubeApiserverSelector job="apiserver".
const ofMixin = 402_565

// costly is the sentence of the README of what TestCost measures.
var costly = regexp.MustCompile(`(?s)(<!-- Measured by TestCost -->\n).*?\n\n`)

// TestCost counts the samples that Prometheus reads each minute for all rules, while one webhook of
// twelve fails and one is slow. There are six hours of series, so that rules of others, which look back
// for days, read less than they do elsewhere.
func TestCost(t *testing.T) {
	t.Parallel()
	stored := scrapedInto(t, minute, parsed(t, expectation{scrape: 1, last: costlyLast, traces: costlyCluster()}.lines()))
	p := evaluateOn(t, groupFile(t, silentGroupsOf(t, allNames()...)), minute, stored)
	p.now = minutes(costlyLast - 45)
	p.until(minutes(costlyLast))
	share := p.samples(t) / ofMixin
	if share > 0.1 {
		t.Errorf("all groups read %.3f of the samples of kubernetes-mixin, want a tenth at most", share)
	}
	text := must.Get(os.ReadFile("README.md"))(t)
	if !costly.Match(text) {
		t.Fatal("README.md has no place for what is measured")
	}
	said := fmt.Sprintf("All groups read %.1f %% of the samples that the kube-apiserver groups of kubernetes-mixin read each minute of the same series.\n", 100*share)
	golden.Compare(t, "../README.md", costly.ReplaceAll(text, []byte("${1}"+said+"\n")))
}

// samples are how many all rules read each minute, as they do now.
func (p *evaluator) samples(t *testing.T) (read float64) {
	t.Helper()
	for _, g := range p.groups {
		for _, r := range g.Rules() {
			query := must.Get(engine(t).NewInstantQuery(t.Context(), p.storage, nil, r.Query().String(), time.Unix(0, 0).Add(minutes(costlyLast))))(t)
			must.Succeed(t, query.Exec(t.Context()).Err)
			read += float64(query.Stats().Samples.TotalSamples) * float64(minute) / float64(max(g.Interval(), minute))
			query.Close()
		}
	}
	return read
}

const costlyLast = 6 * 60

// costlyCluster is what three API servers count of twelve webhooks, and of requests of thirty kinds.
func costlyCluster() []trace {
	out := []trace{seesAll, stays(gcErrors+`{instance="k"}`, 0), stays(longestRun+`{instance="k",name="namespace"}`, 0), stays(queued+`{instance="k",name="namespace"}`, 0)}
	for _, instance := range []string{"a", "b", "c"} {
		on := func(t trace) trace { return t.renamed(`instance="a"`, fmt.Sprintf("instance=%q", instance)) }
		for n := range 12 {
			called, bad := often(60), duringMinutes(costlyLast-45, costlyLast, often(30*max(0, 2-n)))
			traces := append(slowly(1, called, bad), calls("a", "CREATE", 60, func(m int) bool { return n == 0 && m > costlyLast-45 })[1:]...)
			for _, edge := range admissionEdges {
				traces = append(traces, counts(promql.WebhookSeconds+`_bucket{`+calledHook+`,rejected="true",le="`+edge+`"}`, often(1)))
			}
			out = append(out, each("", on, each("", func(t trace) trace { return t.renamed(`name="w"`, fmt.Sprintf(`name="w%d"`, n)) }, append(traces, reach, info)))...)
		}
		for n := range 30 {
			of := fmt.Sprintf(`{job="apiserver",instance="a",verb=%q,group="",version="v1",resource="r%d",subresource="",scope="resource"`, []string{"GET", "LIST", "POST"}[n%3], n)
			traces := []trace{grows(`apiserver_request_total`+of+`,code="200"}`, 60)}
			for _, series := range []string{sliDuration + "_count", sliDuration + "_sum", fullDuration + "_count", fullDuration + "_sum"} {
				traces = append(traces, grows(series+of+"}", 60))
			}
			for edge := range 22 { // as many as the API server's
				traces = append(traces, grows(fmt.Sprintf(`%s_bucket%s,le="%d"}`, sliDuration, of, edge), 60))
			}
			out = append(out, each("", on, traces)...)
		}
		out = append(out, grows(scraped+`{instance="`+instance+`"}`, 60))
	}
	return out
}
