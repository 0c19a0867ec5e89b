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
