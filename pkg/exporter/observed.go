package exporter

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

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
// is 0 where that is not known.
func ObservedServers(read, of int) []*dto.MetricFamily {
	count := func(f Family, value int) *dto.MetricFamily {
		return &dto.MetricFamily{
			Name: new(f.Series()), Help: new(f.Help), Type: dto.MetricType_GAUGE.Enum(),
			Metric: []*dto.Metric{{Gauge: &dto.Gauge{Value: new(float64(value))}}},
		}
	}
	out := []*dto.MetricFamily{count(observedServers, read)}
	if of > 0 {
		out = append(out, count(clusterServers, of))
	}
	return out
}

// observedPerSeries is how many series a family of an API server may have for each that
// one of the Families may have: there is one for each operation and code.
const observedPerSeries = 8

// NewObserved returns a collector of what API servers count, as current returns it at
// each scrape, with a bound on each family that follows from that of the Families.
func NewObserved(maxSeries int, current func() []*dto.MetricFamily) prometheus.Collector {
	return observation{observedPerSeries * maxSeries, current}
}

type observation struct {
	bound   int
	current func() []*dto.MetricFamily
}

// Describe describes nothing: what there is depends on the API servers.
func (observation) Describe(chan<- *prometheus.Desc) {}

// Collect sends all series.
func (o observation) Collect(out chan<- prometheus.Metric) {
	for _, f := range o.current() {
		desc := prometheus.NewDesc(f.GetName(), f.GetHelp(), nil, nil)
		for _, m := range f.GetMetric()[:min(len(f.GetMetric()), o.bound)] {
			out <- series{desc, m}
		}
	}
}

// series is one series of another program.
type series struct {
	desc *prometheus.Desc
	read *dto.Metric
}

// Desc implements prometheus.Metric.
func (s series) Desc() *prometheus.Desc { return s.desc }

// Write implements prometheus.Metric.
func (s series) Write(out *dto.Metric) error {
	out.Label, out.Counter, out.Gauge, out.Untyped, out.Histogram = s.read.Label, s.read.Counter, s.read.Gauge, s.read.Untyped, s.read.Histogram
	return nil
}
