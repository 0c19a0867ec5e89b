package exporter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// evaluationDuration is about the evaluation, not derived from a Report.
var evaluationDuration = Family{
	Name: "evaluation_duration_seconds",
	Help: "Duration of the evaluation of one snapshot.",
}

var evaluationRunning = Family{
	Name: "evaluation_running_seconds",
	Help: "Running time of the current evaluation; 0 if there is none. Until it ends, the metrics show the previous report.",
}

var conditionWriteErrors = Family{
	Name:    "condition_write_errors_total",
	Help:    "Number of failed writes of the lease, the conditions and Events.",
	Counter: true,
}

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

var libraryMessages = Family{
	Name:    "library_messages_total",
	Help:    "Number of messages that the libraries net/http and klog logged. The log has ten at once, and then one a minute.",
	Labels:  []string{"library"},
	Counter: true,
}

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

// ownFamilies are the families of the program, but for evaluationDuration, which is a
// histogram.
var ownFamilies = []Family{
	evaluationRunning, conditionWriteErrors, libraryMessages, pagePanics, policyReloadSuccessful, policyReloadSucceeded,
	buildInfo,
}

// Own are the metrics that are about the program. NewOwn makes them.
type Own struct {
	// Duration is how many seconds the evaluation of each Snapshot took.
	Duration                prometheus.Histogram
	WriteErrors, PagePanics prometheus.Counter
	LibraryMessages         *prometheus.CounterVec

	running              prometheus.GaugeFunc
	successful, reloaded prometheus.Gauge
}

// NewOwn returns the metrics; elapsed is how many seconds the evaluation under way has been
// running.
func NewOwn(elapsed func() float64) *Own {
	counter := func(f Family) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: f.Series(), Help: f.Help})
	}
	gauge := func(f Family) prometheus.GaugeOpts { return prometheus.GaugeOpts{Name: f.Series(), Help: f.Help} }
	return &Own{
		Duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: evaluationDuration.Series(),
			Help: evaluationDuration.Help,
			// An evaluation takes milliseconds; beyond a second something is wrong.
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1},
		}),
		WriteErrors: counter(conditionWriteErrors),
		PagePanics:  counter(pagePanics),
		LibraryMessages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: libraryMessages.Series(), Help: libraryMessages.Help,
		}, libraryMessages.Labels),
		running:    prometheus.NewGaugeFunc(gauge(evaluationRunning), elapsed),
		successful: prometheus.NewGauge(gauge(policyReloadSuccessful)),
		reloaded:   prometheus.NewGauge(gauge(policyReloadSucceeded)),
	}
}

func (o *Own) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		o.Duration, o.WriteErrors, o.PagePanics, o.LibraryMessages, o.running, o.successful, o.reloaded,
	}
}

func (o *Own) PolicyLoaded(now time.Time) {
	o.successful.Set(1)
	o.reloaded.Set(seconds(now))
}

func (o *Own) PolicyFailed() { o.successful.Set(0) }

// The API servers whose counts are exported beside the Families.
var (
	observedServers = Family{
		Name: "observed_apiservers",
		Help: "Number of API servers whose counts the last observation read. Behind a load balancer it is one of several.",
	}
	clusterServers = Family{
		Name: "apiservers",
		Help: "Number of API servers of the cluster; absent if unknown.",
	}
)

// ObservedServers are the metrics of how many API servers were read, and of how many; of
// is 0 where that is unknown.
func ObservedServers(read, total int) []*dto.MetricFamily {
	servers, all := newFamilyWriter(observedServers), newFamilyWriter(clusterServers)
	servers.send(float64(read))
	if total > 0 {
		all.send(float64(total))
	}
	return append(servers.families(), all.families()...)
}

// observedPerSeries is how many series a family of an API server may have for each that
// one of the Families may have: there is one for each operation and code.
const observedPerSeries = 8

// NewObserved returns what API servers count, as current returns it at each scrape, with a
// bound on each family that follows from that of the Families.
func NewObserved(maxSeries int, current func() []*dto.MetricFamily) prometheus.GathererFunc {
	return func() ([]*dto.MetricFamily, error) {
		families := current()
		for _, f := range families {
			f.Metric = f.Metric[:min(len(f.Metric), observedPerSeries*maxSeries)]
		}
		return families, nil
	}
}
