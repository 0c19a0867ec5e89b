package exporter

import (
	"fmt"
	"html/template"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	collectorversion "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/version"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// NewHandler serves what the program says over HTTP: /metrics, /healthz,
// /readyz (ready once current returns a Report) and a page of links at /.
func NewHandler(current func() *classify.Report, process *Process) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metricsHandler(current, process))
	mux.HandleFunc("GET /healthz", healthz)
	mux.HandleFunc("GET /readyz", readyz(current))
	mux.HandleFunc("GET /{$}", landing(current))
	return mux
}

// newRegistry returns all metrics of the program, in a registry of its own.
func newRegistry(current func() *classify.Report, process *Process) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		NewCollector(current),
		process,
		collectorversion.NewCollector(program),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}

func metricsHandler(current func() *classify.Report, process *Process) http.Handler {
	registry := newRegistry(current, process)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		Registry:          registry,
		EnableOpenMetrics: true,
		// Replicas of Prometheus scrape at the same time; one collection serves all.
		CoalesceGather: true,
		// What can be said is said: one bad series must not hide a dead webhook.
		// promhttp_metric_handler_errors_total tells.
		ErrorHandling: promhttp.ContinueOnError,
	})
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

var landingPage = template.Must(template.New("landing").Parse(`<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>webhook-auditor</title></head>
<body>
<h1>webhook-auditor</h1>
<p>{{.State}}</p>
<ul>
<li><a href="metrics">metrics</a></li>
<li><a href="healthz">healthz</a></li>
<li><a href="readyz">readyz</a></li>
<li><a href="{{.Project}}">documentation</a></li>
</ul>
<p>version {{.Version}}</p>
</body>
</html>
`))

func landing(current func() *classify.Report) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		// An error here is a client that went away.
		_ = landingPage.Execute(w, struct{ State, Project, Version string }{
			State: state(current()), Project: Project, Version: version.Version,
		})
	}
}

// state says in one line what the current Report is about.
func state(r *classify.Report) string {
	if r == nil {
		return "Waiting for the first snapshot."
	}
	return totals(NewDocument(r))
}
