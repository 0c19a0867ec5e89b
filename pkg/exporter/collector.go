package exporter

import (
	"hash/maphash"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

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
	families []described
	dropped  described
}

// NewCollector returns a collector of the Families over the Report that current
// returns at each scrape. While current returns nil it exports nothing: unknown
// is not zero.
func NewCollector(current func() *classify.Report) prometheus.Collector {
	return newCollector(current, Families)
}

func newCollector(current func() *classify.Report, families []Family) *collector {
	c := &collector{current: current, dropped: describe(seriesDropped)}
	for _, f := range families {
		c.families = append(c.families, describe(f))
	}
	return c
}

// Describe sends the families' descriptors.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range c.families {
		ch <- f.desc
	}
	ch <- c.dropped.desc
}

// Collect sends the series of the current Report.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	r := c.current()
	if r == nil {
		return
	}
	pairs := pairs{}
	dropped := newSender(c.dropped, pairs, ch)
	for _, f := range c.families {
		s := newSender(f, pairs, ch)
		f.Collect(r, s.send)
		dropped.send(float64(s.dropped), f.Series())
	}
}

// described is a family and what all its series share.
type described struct {
	Family
	desc *prometheus.Desc
	// names are the labels as series carry them: sorted. order tells where in
	// the family's order the value of each is.
	names []string
	order []int
}

func describe(f Family) described {
	d := described{
		Family: f,
		desc:   prometheus.NewDesc(f.Series(), f.Help, f.Labels, nil),
		names:  slices.Sorted(slices.Values(f.Labels)),
	}
	for _, name := range d.names {
		d.order = append(d.order, slices.Index(f.Labels, name))
	}
	return d
}

// sender keeps a family within its bound and free of duplicates: one duplicate
// would fail the scrape of everything.
type sender struct {
	described
	pairs   pairs
	ch      chan<- prometheus.Metric
	seed    maphash.Seed
	seen    map[uint64]struct{}
	dropped int
}

func newSender(f described, p pairs, ch chan<- prometheus.Metric) *sender {
	return &sender{described: f, pairs: p, ch: ch, seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}}
}

// send sends one series.
func (s *sender) send(value float64, labels ...string) {
	if len(s.seen) >= s.bound() {
		s.dropped++
		return
	}
	makeValid(labels)
	id := s.hash(labels)
	if _, duplicate := s.seen[id]; duplicate {
		return
	}
	s.seen[id] = struct{}{}
	s.ch <- s.sample(value, labels)
}

func (s *sender) sample(value float64, labels []string) *sample {
	out := &sample{described: &s.described, value: value, labels: make([]*dto.LabelPair, len(labels))}
	for i, name := range s.names {
		out.labels[i] = s.pairs.get(name, labels[s.order[i]])
	}
	return out
}

func (s *sender) hash(labels []string) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, l := range labels {
		h.WriteString(l)
		// The byte occurs in no valid UTF-8, so no two sets of labels read alike.
		h.WriteByte(0xff)
	}
	return h.Sum64()
}

// makeValid replaces what the exposition formats do not allow in a label.
// Manifests may hold any bytes.
func makeValid(labels []string) {
	for i, l := range labels {
		if !utf8.ValidString(l) {
			labels[i] = strings.ToValidUTF8(l, "\uFFFD")
		}
	}
}

// pairs are the labels of one scrape, each once.
type pairs map[[2]string]*dto.LabelPair

func (p pairs) get(name, value string) *dto.LabelPair {
	key := [2]string{name, value}
	pair, known := p[key]
	if !known {
		pair = &dto.LabelPair{Name: new(name), Value: new(value)}
		p[key] = pair
	}
	return pair
}

// sample is one series. It shares its labels with the others of the scrape:
// with a prometheus.NewConstMetric, which does not, a scrape of 5,000 webhooks
// takes more memory than all the rest of the program.
type sample struct {
	*described
	value  float64
	labels []*dto.LabelPair
}

// Desc returns the descriptor of the family.
func (s *sample) Desc() *prometheus.Desc { return s.desc }

// Write fills in the series.
func (s *sample) Write(m *dto.Metric) error {
	m.Label = s.labels
	if s.Counter {
		m.Counter = &dto.Counter{Value: &s.value}
	} else {
		m.Gauge = &dto.Gauge{Value: &s.value}
	}
	return nil
}
