package exporter

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	collectorversion "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// NewHandler serves /metrics, /healthz and /readyz (ready once current returns a
// Report). The metrics are the families over the Report, those of the process, and
// the collectors of own.
func NewHandler(current func() *classify.Report, families []Family, own ...prometheus.Collector) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metricsHandler(current, families, own...))
	mux.HandleFunc("GET /healthz", healthz)
	mux.HandleFunc("GET /readyz", readyz(current))
	return mux
}

func metricsHandler(current func() *classify.Report, families []Family, own ...prometheus.Collector) http.Handler {
	own = slices.Concat(own, []prometheus.Collector{
		collectorversion.NewCollector(program),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	})
	registry := newRegistry(own...)
	return newScraper(collector{current, families, registry}, promhttp.HandlerFor(collector{current, families, registry}, promhttp.HandlerOpts{
		Registry:          registry,
		EnableOpenMetrics: true,
		// One bad series must not hide the others;
		// promhttp_metric_handler_errors_total counts it.
		ErrorHandling: promhttp.ContinueOnError,
	}))
}

// withNames returns the families whose series have one of the names.
func withNames(families []Family, names []string) []Family {
	var out []Family
	for _, f := range families {
		if slices.Contains(names, f.Series()) {
			out = append(out, f)
		}
	}
	return out
}

// isOwn reports whether a series is about the program: none of the Families.
func isOwn(name string) bool {
	return name != seriesDropped.Series() && !slices.ContainsFunc(Families, func(f Family) bool { return f.Series() == name })
}

func newRegistry(own ...prometheus.Collector) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(own...)
	return registry
}

func healthz(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }

func readyz(current func() *classify.Report) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if current() == nil {
			http.Error(w, "waiting for the first snapshot", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}
