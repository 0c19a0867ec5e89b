package exporter

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// What one isolated change costs from the objects to an answer of /metrics, in
// a cluster of 5,000 webhooks.
func BenchmarkChange5000(b *testing.B) {
	for name, change := range map[string]func(*inventory.Objects, int){
		"endpoint": func(o *inventory.Objects, n int) {
			o.EndpointSlices[7] = reporttest.EndpointSlice("scale-007", n%2 == 0)
		},
		"configuration": func(o *inventory.Objects, _ int) {
			o.Validating[7] = reporttest.Crowded(7, o.Validating[8].Webhooks[0].ClientConfig.CABundle)
		},
	} {
		b.Run(name, func(b *testing.B) {
			o := reporttest.Crowd()
			policy := classify.DefaultPolicy()
			var report *classify.Report
			h := NewHandler(func() *classify.Report { return report }, Families)
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				o.EndpointSlices, o.Validating = slices.Clone(o.EndpointSlices), slices.Clone(o.Validating)
				change(&o, n)
				var err error
				if report, err = policy.Evaluate(b.Context(), o.Snapshot(reporttest.Taken)); err != nil {
					b.Fatal(err)
				}
				h.ServeHTTP(&counter{header: http.Header{}}, httptest.NewRequest(http.MethodGet, "/metrics?name[]=webhook_auditor_findings", nil))
			}
		})
	}
}
