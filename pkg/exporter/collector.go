package exporter

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// seriesDropped counts what the bounds of the other families drop; the collector
// itself emits it.
var seriesDropped = Family{
	Name:   "series_dropped",
	Help:   "Number of series of a family that are dropped because it reached its bound.",
	Labels: []string{"family"},
}

// collector returns the current Report as metrics. It has no state. It is no
// prometheus.Collector, because a registry keeps several copies of each series,
// sorts them and compares them: with 5,000 webhooks, a scrape would take more
// memory than all the rest of the program.
type collector struct {
	// current returns the Report, nil while there is none: unknown is not zero.
	current  func() *classify.Report
	families []Family
	// own are the metrics that are about the program.
	own prometheus.Gatherer
}

// NewGatherer returns a gatherer of the Families over the Report that current
// returns at each scrape, and of the metrics that are about the program.
func NewGatherer(current func() *classify.Report, own prometheus.Gatherer) prometheus.Gatherer {
	return collector{current, Families, own}
}

// Gather returns the series of the current Report.
func (c collector) Gather() ([]*dto.MetricFamily, error) {
	out, err := c.own.Gather()
	if r := c.current(); r != nil {
		out = append(out, collect(r, c.families)...)
	}
	slices.SortFunc(out, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out, err
}

func collect(r *classify.Report, families []Family) []*dto.MetricFamily {
	memory := newArena()
	dropped := map[string]int{}
	var out []*dto.MetricFamily
	for _, f := range families {
		s := newFamilyWriter(f, memory)
		f.Collect(r, s.send)
		dropped[f.Series()] = s.dropped
		out = s.appendTo(out)
	}
	s := newFamilyWriter(seriesDropped, memory)
	for _, f := range families {
		s.send(float64(dropped[f.Series()]), f.Series())
	}
	return s.appendTo(out)
}

// familyWriter keeps a family within its bound and free of duplicates: one
// duplicate would fail the whole scrape.
type familyWriter struct {
	Family
	*arena
	// names are the labels as series carry them: sorted. order is the index of
	// each in the family's order.
	names   []string
	order   []int
	metrics []*dto.Metric
	dropped int
	// perWebhook counts the series of each webhook, where that is bounded.
	perWebhook map[[3]string]int
}

func newFamilyWriter(f Family, a *arena) *familyWriter {
	clear(a.seen)
	s := &familyWriter{Family: f, arena: a, names: slices.Sorted(slices.Values(f.Labels))}
	for _, name := range s.names {
		s.order = append(s.order, slices.Index(f.Labels, name))
	}
	return s
}

// send sends one series.
func (s *familyWriter) send(value float64, labels ...string) {
	if len(s.metrics) >= s.bound() || s.exceeds(labels) {
		s.dropped++
		return
	}
	makeValid(labels)
	id := s.hash(labels)
	if _, duplicate := s.seen[id]; duplicate {
		return
	}
	s.seen[id] = struct{}{}
	m := s.metric()
	m.Label = s.labels(len(labels))
	for i, name := range s.names {
		m.Label[i] = s.pair(name, labels[s.order[i]])
	}
	if s.Counter {
		m.Counter = &dto.Counter{Value: new(value)}
	} else {
		m.Gauge = s.gauge(value)
	}
	s.metrics = append(s.metrics, m)
}

// exceeds reports whether the webhook has all series that it may have.
func (s *familyWriter) exceeds(labels []string) bool {
	if s.PerWebhook == 0 {
		return false
	}
	if s.perWebhook == nil {
		s.perWebhook = map[[3]string]int{}
	}
	webhook := [3]string(labels[:3])
	s.perWebhook[webhook]++
	return s.perWebhook[webhook] > s.PerWebhook
}

// appendTo appends the family, if it has any series.
func (s *familyWriter) appendTo(out []*dto.MetricFamily) []*dto.MetricFamily {
	if len(s.metrics) == 0 {
		return out
	}
	kind := dto.MetricType_GAUGE
	if s.Counter {
		kind = dto.MetricType_COUNTER
	}
	return append(out, &dto.MetricFamily{Name: new(s.Series()), Help: new(s.Help), Type: &kind, Metric: s.metrics})
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

// arena holds what the series of one scrape have in common, and what is seen of
// the family under way. It hands out memory by the block: a scrape is tens of
// thousands of small objects that are forgotten together.
type arena struct {
	seed    maphash.Seed
	seen    map[uint64]struct{}
	pairs   map[[2]string]*dto.LabelPair
	values  map[float64]*dto.Gauge
	metrics []dto.Metric
	free    []*dto.LabelPair
}

func newArena() *arena {
	return &arena{
		seed:   maphash.MakeSeed(),
		seen:   map[uint64]struct{}{},
		pairs:  map[[2]string]*dto.LabelPair{},
		values: map[float64]*dto.Gauge{},
	}
}

// atOnce is how many objects are allocated at once.
const atOnce = 512

func (s *arena) metric() *dto.Metric {
	if len(s.metrics) == 0 {
		s.metrics = make([]dto.Metric, atOnce)
	}
	m := &s.metrics[0]
	s.metrics = s.metrics[1:]
	return m
}

func (s *arena) labels(n int) []*dto.LabelPair {
	if len(s.free) < n {
		s.free = make([]*dto.LabelPair, max(n, 8*atOnce))
	}
	out := s.free[:n:n]
	s.free = s.free[n:]
	return out
}

// pair returns the label, each once.
func (s *arena) pair(name, value string) *dto.LabelPair {
	key := [2]string{name, value}
	pair, known := s.pairs[key]
	if !known {
		pair = &dto.LabelPair{Name: new(name), Value: new(value)}
		s.pairs[key] = pair
	}
	return pair
}

// gauge returns the value, each once: nearly all are 1.
func (s *arena) gauge(value float64) *dto.Gauge {
	gauge, known := s.values[value]
	if !known {
		gauge = &dto.Gauge{Value: new(value)}
		s.values[value] = gauge
	}
	return gauge
}

func (s *arena) hash(labels []string) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, l := range labels {
		h.WriteString(l)
		// The byte occurs in no valid UTF-8, so no two sets of labels read alike.
		h.WriteByte(0xff)
	}
	return h.Sum64()
}
