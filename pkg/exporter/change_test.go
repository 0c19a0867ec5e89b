package exporter

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// What one isolated change costs from the objects to an answer of /metrics, in
// a cluster of 5,000 webhooks of which each has a CA bundle of its own.
func BenchmarkChange5000(b *testing.B) {
	for name, change := range map[string]func(*inventory.Objects, int){
		"endpoint": func(o *inventory.Objects, n int) {
			o.EndpointSlices[7] = reporttest.EndpointSlice("scale-007", n%2 == 0)
		},
		"configuration": func(o *inventory.Objects, n int) {
			o.Validating[7] = o.Validating[7].DeepCopy()
			o.Validating[7].Webhooks[0].TimeoutSeconds = new(int32(5 + n%2))
		},
	} {
		b.Run(name, func(b *testing.B) {
			o := reporttest.Crowd(b)
			for i, c := range o.Validating {
				for n := range c.Webhooks {
					c.Webhooks[n].ClientConfig.CABundle = fmt.Appendf(nil, "# %d %d\n%s", i, n, c.Webhooks[n].ClientConfig.CABundle)
				}
			}
			builder, evaluator := inventory.Builder{}, classify.NewEvaluator(classify.DefaultPolicy())
			var matcher *admission.Matcher
			var report *classify.Report
			h := NewHandler(func() *classify.Report { return report }, Families)
			b.ReportAllocs()
			began := cpuTime()
			for n := 0; b.Loop(); n++ {
				o.EndpointSlices, o.Validating = slices.Clone(o.EndpointSlices), slices.Clone(o.Validating)
				change(&o, n)
				matcher = matcher.Next(builder.Snapshot(o, reporttest.Taken))
				report = must.Get(evaluator.Evaluate(b.Context(), matcher))(b)
				h.ServeHTTP(&counter{header: http.Header{}}, httptest.NewRequest(http.MethodGet, "/metrics?name[]=webhook_auditor_findings", nil))
			}
			b.ReportMetric((cpuTime()-began).Seconds()*1000/float64(b.N), "ms-cpu/op")
		})
	}
}

// What the first compressed scrape after a change costs, in a cluster of 5,000 webhooks.
func BenchmarkFirstScrape5000(b *testing.B) {
	o := reporttest.Crowd(b)
	builder, evaluator := inventory.Builder{}, classify.NewEvaluator(classify.DefaultPolicy())
	var matcher *admission.Matcher
	var report *classify.Report
	h := NewHandler(func() *classify.Report { return report }, Bounded(1_000_000))
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept-Encoding", "gzip")
	change := func(n int) {
		o.Validating = slices.Clone(o.Validating)
		o.Validating[7] = o.Validating[7].DeepCopy()
		o.Validating[7].Webhooks[0].TimeoutSeconds = new(int32(5 + n%2))
		matcher = matcher.Next(builder.Snapshot(o, reporttest.Taken))
		report = must.Get(evaluator.Evaluate(b.Context(), matcher))(b)
	}
	change(0)
	h.ServeHTTP(&counter{header: http.Header{}}, request) // what changes is what counts
	b.ReportAllocs()
	for n := 1; b.Loop(); n++ {
		b.StopTimer()
		change(n)
		b.StartTimer()
		h.ServeHTTP(&counter{header: http.Header{}}, request)
	}
}

// cpuTime is the CPU that the process took so far, its garbage collection included.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
