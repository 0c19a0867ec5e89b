package exporter

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// seriesDropped tells that a bound was hit. It is about the other families, so
// the collector itself emits it.
var seriesDropped = Family{
	Name:   "series_dropped",
	Help:   "How many series of a family are not exported because it reached its bound.",
	Labels: []string{"family"},
}

// collector says the current Report as metrics. It has no state.
type collector struct {
	current  func() *classify.Report
	families []Family
	descs    []*prometheus.Desc
	dropped  *prometheus.Desc
}

// NewCollector returns a collector of the Families over the Report that current
// returns at each scrape. While current returns nil it exports nothing: unknown
// is not zero.
func NewCollector(current func() *classify.Report) prometheus.Collector {
	return newCollector(current, Families)
}

func newCollector(current func() *classify.Report, families []Family) *collector {
	c := &collector{current: current, families: families, dropped: desc(seriesDropped)}
	for _, f := range families {
		c.descs = append(c.descs, desc(f))
	}
	return c
}

func desc(f Family) *prometheus.Desc {
	return prometheus.NewDesc(f.Series(), f.Help, f.Labels, nil)
}

// Describe sends the families' descriptors.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
	ch <- c.dropped
}

// Collect sends the series of the current Report.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	r := c.current()
	if r == nil {
		return
	}
	for i, f := range c.families {
		s := sender{desc: c.descs[i], max: f.bound(), seen: map[string]bool{}, ch: ch}
		f.Collect(r, s.send)
		ch <- prometheus.MustNewConstMetric(c.dropped, prometheus.GaugeValue, float64(s.dropped), f.Series())
	}
}

// sender keeps a family within its bound and free of duplicates: one duplicate
// would fail the scrape of everything.
type sender struct {
	desc    *prometheus.Desc
	max     int
	seen    map[string]bool
	dropped int
	ch      chan<- prometheus.Metric
}

func (s *sender) send(value float64, labels ...string) {
	if len(s.seen) >= s.max {
		s.dropped++
		return
	}
	labels = validUTF8(labels)
	// The byte occurs in no valid UTF-8, so no two sets of labels join alike.
	key := strings.Join(labels, "\xff")
	if s.seen[key] {
		return
	}
	s.seen[key] = true
	s.ch <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, value, labels...)
}

// validUTF8 replaces what the exposition formats do not allow in a label.
// Manifests may hold any bytes.
func validUTF8(labels []string) []string {
	out := slices.Clone(labels)
	for i, l := range out {
		out[i] = strings.ToValidUTF8(l, "\uFFFD")
	}
	return out
}
