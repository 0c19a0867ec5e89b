package rules

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

var (
	webhooks = flag.Int("webhooks", 1000, "how many webhooks the benchmark has")
	beside   = flag.String("beside", "", "a PrometheusRule whose groups of the API server, as kube-prometheus ships them, the benchmark evaluates over the same series")
)

// BenchmarkGroups evaluates each group over a thousand webhooks that are called and
// have six hours behind them, seen by two auditors, and the requests for 150
// resources that three API servers count, tick after tick. The ticks are six apart: reading the last
// values of a series costs the more, the more of the 120 that Prometheus stores
// together stand before them. The CPU time is that of the process, so that other
// load on the machine does not count; that of a tick is what a group costs in it on
// average.
func BenchmarkGroups(b *testing.B) {
	const full, times, apart = 725, 20, 6
	stored := scrapedInto(b, tick, fleet(b, *webhooks, full+times*apart))
	groups, err := Options{}.groups()
	if err != nil {
		b.Fatal(err)
	}
	files := map[string]string{"ours": groupFile(b, plain(groups))}
	if *beside != "" {
		files["beside"] = groupFile(b, ofAPIServer(b, *beside))
	}
	sums := map[string]float64{}
	for how, file := range files {
		for _, g := range evaluateOn(b, file, tick, stored).groups {
			var each float64
			b.Run(how+"/"+g.Name(), func(b *testing.B) {
				g.Eval(b.Context(), time.Unix(0, 0).Add((full-1)*tick))
				before := cpuTime(b)
				for n := 0; b.Loop(); n++ {
					g.Eval(b.Context(), time.Unix(0, 0).Add(time.Duration(full+n%times*apart)*tick))
				}
				once := float64((cpuTime(b) - before).Microseconds()) / 1000 / float64(b.N)
				b.ReportMetric(once, "cpu-ms/op")
				each = once * float64(tick) / float64(g.Interval())
				b.ReportMetric(each, "cpu-ms/tick")
			})
			sums[how] += each
		}
	}
	for how, sum := range sums {
		b.Logf("all groups %s: %.1f ms of CPU each tick", how, sum)
	}
}

// ofAPIServer are the groups of a PrometheusRule that are about the API server.
func ofAPIServer(b *testing.B, file string) []monitoringv1.RuleGroup {
	b.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	var read monitoringv1.PrometheusRule
	if err := yaml.Unmarshal(text, &read); err != nil {
		b.Fatalf("reading %s: %v", file, err)
	}
	return silenced(slices.DeleteFunc(read.Spec.Groups, func(g monitoringv1.RuleGroup) bool { return !strings.HasPrefix(g.Name, "kube-apiserver") }))
}

// cpuTime is what the process has computed so far.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// fleet are the series of so many webhooks.
func fleet(b *testing.B, webhooks, ticks int) []scrapedSeries {
	b.Helper()
	var out []scrapedSeries
	for i := range webhooks {
		for _, s := range parsed(b, webhookSeries(fmt.Sprintf("w%d.example.com", i))) {
			first, _ := s.at(0)
			second, _ := s.at(1)
			out = append(out, scrapedSeries{s.labels, func(scrape int) (float64, bool) { return first + float64(scrape)*(second-first), true }, ticks})
		}
	}
	for _, s := range parsed(b, requestSeries()) {
		second, _ := s.at(1)
		out = append(out, scrapedSeries{s.labels, func(scrape int) (float64, bool) { return float64(scrape) * second, true }, ticks})
	}
	return out
}

// requestSeries are what three API servers count of the requests for 150 resources,
// with the edges of histograms that kube-prometheus keeps.
func requestSeries() []string {
	var out []string
	scopes := map[string]string{"LIST": "namespace"}
	for _, instance := range []string{"a", "b", "c"} {
		for resource := range 150 {
			for _, verb := range []string{"GET", "LIST", "POST", "PUT", "PATCH", "DELETE"} {
				labels := fmt.Sprintf(`job="apiserver",instance=%q,verb=%q,group="g%d.example.com",resource="r%d",subresource="",scope=%q`,
					instance, verb, resource%30, resource, cmp.Or(scopes[verb], "resource"))
				for _, le := range []string{"0.05", "0.1", "1", "5", "10", "30", "60", "+Inf"} {
					out = append(out, fmt.Sprintf(`%s_bucket{%s,le=%q} 0+5x1`, sliDuration, labels, le))
				}
				out = append(out,
					fmt.Sprintf(`apiserver_request_total{%s,code="200"} 0+5x1`, labels),
					fmt.Sprintf(`apiserver_request_total{%s,code="500"} 0+0.1x1`, labels),
					fmt.Sprintf(`%s_sum{%s,dry_run=""} 0+0.2x1`, fullDuration, labels),
					fmt.Sprintf(`%s_sum{%s} 0+0.1x1`, sliDuration, labels),
					fmt.Sprintf(`%s_count{%s} 0+5x1`, sliDuration, labels))
			}
		}
	}
	return out
}

// webhookSeries are all series of one webhook that the alerts read.
func webhookSeries(name string) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)+"x1") }
	webhook := fmt.Sprintf(`name=%q,type="validating"`, name)
	call := fmt.Sprintf(`instance="a",%s,operation="CREATE",rejected="false"`, webhook)
	add(`apiserver_admission_webhook_request_total{%s,code="200"} 0+10`, call)
	add(`apiserver_admission_webhook_admission_duration_seconds_count{%s} 0+10`, call)
	for _, le := range admissionEdges {
		add(`apiserver_admission_webhook_admission_duration_seconds_bucket{%s,le=%q} 0+10`, call, le)
	}
	for _, pod := range []string{"one", "two"} {
		known := fmt.Sprintf(`pod=%q,%s,configuration="c",service_namespace="n"`, pod, webhook)
		add(`webhook_auditor_webhook_info{%s,failure_policy="Fail"} 1`, known)
		add(`webhook_auditor_webhook_latency_threshold_seconds{%s} 1`, known)
		add(`webhook_auditor_webhook_failure_impact{%s,impact="closed"} 1`, known)
	}
	return out
}
