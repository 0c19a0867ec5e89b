package exporter

import (
	"net/http"
	"slices"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	collectorversion "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// NewHandler serves the metrics: the families over the Report that current returns, those of
// the process, the collectors of own, and what is observed, which may be nil.
func NewHandler(current func() *classify.Report, families []Family, observed prometheus.Gatherer, own ...prometheus.Collector) http.Handler {
	own = slices.Concat(own, []prometheus.Collector{
		collectorversion.NewCollector(program),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	})
	registry := newRegistry(own...)
	c := collector{current, families, registry}
	if observed != nil {
		c.own = prometheus.Gatherers{registry, observed}
	}
	return compressed(newScraper(c, promhttp.HandlerFor(c, promhttp.HandlerOpts{
		Registry:           registry,
		EnableOpenMetrics:  true,
		DisableCompression: true,
		// One bad series must not hide the others;
		// promhttp_metric_handler_errors_total counts it.
		ErrorHandling: promhttp.ContinueOnError,
	})))
}

// compressed compresses what the handler answers for clients that take gzip, as all
// versions of Prometheus do.
func compressed(h http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.CompressionLevel(gzip.BestSpeed), gzhttp.EnableZstd(false))
	if err != nil {
		panic(err) // these options are always valid
	}
	return wrap(h)
}

func newRegistry(own ...prometheus.Collector) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(own...)
	return registry
}
