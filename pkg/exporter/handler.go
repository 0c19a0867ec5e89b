package exporter

import (
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	collectorversion "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/version"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// NewHandler serves /metrics, /healthz,
// /readyz (ready once current returns a Report) and a page of links at /. The
// metrics are those families of the Report, of the process, and the collectors
// given.
func NewHandler(current func() *classify.Report, families []Family, own ...prometheus.Collector) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metricsHandler(current, families, own...))
	mux.HandleFunc("GET /healthz", healthz)
	mux.HandleFunc("GET /readyz", readyz(current))
	mux.HandleFunc("GET /{$}", landing(current))
	return mux
}

func metricsHandler(current func() *classify.Report, families []Family, own ...prometheus.Collector) http.Handler {
	own = slices.Concat(own, []prometheus.Collector{
		collectorversion.NewCollector(program),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	})
	registry := newRegistry(own...)
	everything := newScraper(collector{current, families, registry}, promhttp.HandlerFor(collector{current, families, registry}, promhttp.HandlerOpts{
		Registry:          registry,
		EnableOpenMetrics: true,
		// One bad series must not hide the others;
		// promhttp_metric_handler_errors_total counts it.
		ErrorHandling: promhttp.ContinueOnError,
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		names := r.URL.Query()["name[]"]
		if len(names) == 0 {
			everything.ServeHTTP(w, r)
			return
		}
		// promhttp would collect everything and drop what was not asked for. To
		// collect no more than that makes the question cheap enough for a script
		// that waits for a change.
		some := collector{current, named(families, names), newRegistry()}
		if slices.ContainsFunc(names, foreign) {
			some.own = registry
		}
		promhttp.HandlerFor(some, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, r)
	})
}

// named returns the families whose series have one of the names.
func named(families []Family, names []string) []Family {
	if slices.Contains(names, seriesDropped.Series()) {
		return families
	}
	var out []Family
	for _, f := range families {
		if slices.Contains(names, f.Series()) {
			out = append(out, f)
		}
	}
	return out
}

// foreign reports whether a series is none of the Families'.
func foreign(name string) bool {
	return !slices.ContainsFunc(Families, func(f Family) bool { return f.Series() == name })
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

var landingPage = template.Must(template.New("landing").Parse(`<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>webhook-auditor</title></head>
<body>
<h1>webhook-auditor</h1>
<p>{{.State}}</p>
{{range .Errors}}<p>Cannot read {{.}}</p>
{{end}}<ul>
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
		page := struct {
			State, Project, Version string
			Errors                  []report.Error
		}{"Waiting for the first snapshot.", report.Project, version.Version, nil}
		if r := current(); r != nil {
			d := report.NewDocument(r)
			page.State = d.Summary() + " As of " + asOf(r).UTC().Format(time.RFC3339) + "."
			page.Errors = d.Errors[:min(len(d.Errors), report.MaxErrors)]
		}
		// An error here is a client that went away.
		_ = landingPage.Execute(w, page)
	}
}

// asOf is when all that the Report is about was known to be current.
func asOf(r *classify.Report) time.Time {
	if r.Snapshot.Current.IsZero() {
		return r.Snapshot.Taken
	}
	return r.Snapshot.Current
}
