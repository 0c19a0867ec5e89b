package exporter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var (
	watchErrors = Family{
		Name:   "watch_errors_total",
		Help:   "How often a list or watch of the resource failed.",
		Labels: []string{"group", "resource"},
	}
	evaluationDuration = Family{
		Name: "evaluation_duration_seconds",
		Help: "How long the checks took on one snapshot.",
	}
)

// Process counts what the process itself does, as opposed to what it sees: the
// only metrics that are not derived from a Report. It is safe for concurrent
// use.
type Process struct {
	watchErrors *prometheus.CounterVec
	evaluation  prometheus.Histogram
}

// NewProcess returns a Process that has seen nothing yet. The resources watched
// start at 0, because a counter that appears at 1 hides its first increase from
// rate and increase.
func NewProcess(watched ...inventory.Resource) *Process {
	p := &Process{
		watchErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: watchErrors.Series(),
			Help: watchErrors.Help,
		}, watchErrors.Labels),
		evaluation: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: evaluationDuration.Series(),
			Help: evaluationDuration.Help,
			// An evaluation takes milliseconds; beyond a second something is wrong.
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1},
		}),
	}
	for _, r := range watched {
		p.watchErrors.WithLabelValues(r.Group, r.Path())
	}
	return p
}

// WatchFailed counts a list or watch of the resource that failed.
func (p *Process) WatchFailed(r inventory.Resource) {
	p.watchErrors.WithLabelValues(r.Group, r.Path()).Inc()
}

// Evaluated records how long the evaluation of one Snapshot took.
func (p *Process) Evaluated(d time.Duration) { p.evaluation.Observe(d.Seconds()) }

// Describe sends the descriptors of the process's metrics.
func (p *Process) Describe(ch chan<- *prometheus.Desc) {
	p.watchErrors.Describe(ch)
	p.evaluation.Describe(ch)
}

// Collect sends the process's metrics.
func (p *Process) Collect(ch chan<- prometheus.Metric) {
	p.watchErrors.Collect(ch)
	p.evaluation.Collect(ch)
}
