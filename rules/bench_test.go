package rules

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
)

// BenchmarkGroups evaluates the groups over a thousand webhooks that are called
// and have six hours behind them, seen by two auditors, with what alerts share
// recorded and written out. What is recorded is so since six hours, too. Each
// evaluation follows a scrape, as what reading costs depends on how full the
// chunks of the storage are. The CPU time is that of the process, so that other
// load on the machine does not count.
func BenchmarkGroups(b *testing.B) {
	for how, record := range map[string]bool{"recorded": true, "written out": false} {
		b.Run(how, func(b *testing.B) {
			groups, err := Options{}.groups(record)
			if err != nil {
				b.Fatal(err)
			}
			f := newFleet(b, 1000)
			p := evaluateOn(b, groupFile(b, groups), tick, f.storage)
			f.history(p, record)
			evaluations, spent := map[string]int{}, map[string]time.Duration{}
			for b.Loop() {
				f.scrape()
				for _, g := range p.due() {
					before := cpuTime(b)
					g.Eval(b.Context(), time.Unix(0, 0).Add(p.now))
					spent[g.Name()] += cpuTime(b) - before
					evaluations[g.Name()]++
				}
				p.now += p.tick
			}
			sum := 0.0
			for group, n := range evaluations {
				each := float64(spent[group].Microseconds()) / 1000 / float64(n)
				b.ReportMetric(each, "cpu-ms/"+group)
				sum += each
			}
			b.ReportMetric(sum, "cpu-ms/all")
		})
	}
}

// fleet is a storage that scrapes so many webhooks.
type fleet struct{ scraper }

func newFleet(b testing.TB, webhooks int) *fleet {
	b.Helper()
	const forever = 1 << 20
	var series []scrapedSeries
	for i := range webhooks {
		for _, s := range parsed(b, webhookSeries(fmt.Sprintf("w%d.example.com", i))) {
			first, _ := s.at(0)
			second, _ := s.at(1)
			series = append(series, scrapedSeries{s.labels, func(scrape int) (float64, bool) { return first + float64(scrape)*(second-first), true }, forever})
		}
	}
	return &fleet{scraper{t: b, storage: teststorage.New(b), interval: tick, series: series, refs: make([]storage.SeriesRef, len(series))}}
}

// history scrapes for six hours and a bit, and evaluates as often as what is
// counted is sampled. Of what else is recorded of a healthy webhook, nothing is
// read that is older than five minutes, but the chunk that it is in may be.
func (f *fleet) history(p *evaluator, record bool) {
	const past, chunk = 6*time.Hour + 10*time.Minute, time.Hour
	for p.now = 0; p.now < past; p.now += p.tick {
		f.scrape()
		if record && (p.now%sampling == 0 || p.now > past-chunk) {
			p.evaluate()
		}
	}
	f.storage.ForceHeadMMap()
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
