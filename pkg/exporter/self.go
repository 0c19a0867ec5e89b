package exporter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// evaluationDuration is about the evaluation, not derived from a Report.
var evaluationDuration = Family{
	Name: "evaluation_duration_seconds",
	Help: "Duration of the evaluation of one snapshot.",
}

// evaluationRunning shows an evaluation that does not end.
var evaluationRunning = Family{
	Name: "evaluation_running_seconds",
	Help: "Running time of the current evaluation; 0 if there is none. Until it ends, the metrics show the previous report.",
}

// conditionWriteErrors counts what the operator could not write.
var conditionWriteErrors = Family{
	Name:    "condition_write_errors_total",
	Help:    "Number of failed writes of the lease, the conditions and Events.",
	Counter: true,
}

// The Policy file is read again when it changes.
var (
	policyReloadSuccessful = Family{
		Name: "policy_last_reload_successful",
		Help: "Whether the last attempt to load the Policy was successful: 1 or 0. While it is 0, the last good Policy stays in effect.",
	}
	policyReloadSucceeded = Family{
		Name: "policy_last_reload_success_timestamp_seconds",
		Help: "Time of the last successful load of the Policy.",
	}
)

// libraryMessages counts what libraries log.
var libraryMessages = Family{
	Name:    "library_messages_total",
	Help:    "Number of messages that the libraries net/http and klog logged. The log has the first of a kind, and once a minute the number of the others.",
	Labels:  []string{"library"},
	Counter: true,
}

// pagePanics counts what no page should do.
var pagePanics = Family{
	Name:    "page_panics_total",
	Help:    "Number of pages that panicked while they were rendered; the log has the stack.",
	Counter: true,
}

// buildInfo is what prometheus/common exports of a program's version.
var buildInfo = Family{
	Name:   "build_info",
	Help:   "Information about the build; value is always 1.",
	Labels: []string{"version", "revision", "branch", "goversion", "goos", "goarch", "tags"},
}

// NewEvaluationDuration returns the metric in which to observe how many seconds
// the evaluation of each Snapshot took.
func NewEvaluationDuration() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: evaluationDuration.Series(),
		Help: evaluationDuration.Help,
		// An evaluation takes milliseconds; beyond a second something is wrong.
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1},
	})
}

// NewEvaluationRunning returns the metric that shows how many seconds the
// evaluation under way has been running.
func NewEvaluationRunning(elapsed func() float64) prometheus.GaugeFunc {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: evaluationRunning.Series(), Help: evaluationRunning.Help}, elapsed)
}

// NewConditionWriteErrors returns the metric in which to count what the
// operator could not write.
func NewConditionWriteErrors() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: conditionWriteErrors.Series(), Help: conditionWriteErrors.Help})
}

// PolicyReload are the metrics of the Policy file, named as Prometheus names
// those of its own configuration.
type PolicyReload struct{ successful, succeeded prometheus.Gauge }

// NewPolicyReload returns the metrics in which to note each reload.
func NewPolicyReload() PolicyReload {
	gauge := func(f Family) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: f.Series(), Help: f.Help})
	}
	return PolicyReload{gauge(policyReloadSuccessful), gauge(policyReloadSucceeded)}
}

// Succeeded notes that a Policy is in effect since then.
func (r PolicyReload) Succeeded(at time.Time) {
	r.successful.Set(1)
	r.succeeded.Set(float64(at.UnixMilli()) / 1000)
}

// Failed notes that the Policy file cannot be read or is invalid.
func (r PolicyReload) Failed() { r.successful.Set(0) }

// Describe describes both metrics.
func (r PolicyReload) Describe(out chan<- *prometheus.Desc) {
	r.successful.Describe(out)
	r.succeeded.Describe(out)
}

// Collect returns both metrics.
func (r PolicyReload) Collect(out chan<- prometheus.Metric) {
	r.successful.Collect(out)
	r.succeeded.Collect(out)
}

// NewPagePanics returns the metric in which to count pages that panicked.
func NewPagePanics() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: pagePanics.Series(), Help: pagePanics.Help})
}

// NewLibraryMessages returns the metric in which to count what libraries log,
// by the library.
func NewLibraryMessages() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: libraryMessages.Series(), Help: libraryMessages.Help}, libraryMessages.Labels)
}
