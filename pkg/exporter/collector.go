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
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
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
	memory := newArena(r)
	dropped := map[string]int{}
	var out []*dto.MetricFamily
	for _, f := range families {
		w := written(f, r, memory)
		dropped[f.Series()] = w.dropped
		out = w.appendTo(out)
	}
	w := newFamilyWriter(seriesDropped, memory)
	for _, f := range families {
		w.send(float64(dropped[f.Series()]), f.Series())
	}
	return w.appendTo(out)
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
	w := &familyWriter{Family: f, arena: a, names: slices.Sorted(slices.Values(f.Labels))}
	for _, name := range w.names {
		w.order = append(w.order, slices.Index(f.Labels, name))
	}
	return w
}

// written returns a writer of the family's series. Where the family has more than its
// bound, each type of webhook has its share.
func written(f Family, r *classify.Report, a *arena) *familyWriter {
	w := newFamilyWriter(f, a)
	f.Collect(r, w.send)
	if w.dropped > 0 {
		w = newFamilyWriter(f, a)
		f.Collect(spread(r), w.send)
	}
	return w
}

// spread returns the Report with its webhooks in an order of which each beginning has
// about the same share of each type.
func spread(r *classify.Report) *classify.Report {
	type place struct {
		profile classify.Profile
		nth     int // of its type
	}
	total, places := map[inventory.Type]int{}, make([]place, len(r.Profiles))
	for i, p := range r.Profiles {
		places[i] = place{p, total[p.Type]}
		total[p.Type]++
	}
	slices.SortStableFunc(places, func(a, b place) int {
		return cmp.Compare(a.nth*total[b.profile.Type], b.nth*total[a.profile.Type])
	})
	out := *r
	out.Profiles = make([]classify.Profile, len(places))
	for i := range places {
		out.Profiles[i] = places[i].profile
	}
	return &out
}

// send sends one series.
func (w *familyWriter) send(value float64, labels ...string) {
	if len(w.metrics) >= w.bound() || w.exceeds(labels) {
		w.dropped++
		return
	}
	makeValid(labels)
	id := w.hash(labels)
	if _, duplicate := w.seen[id]; duplicate {
		return
	}
	w.seen[id] = struct{}{}
	m := w.metric()
	m.Label = w.labels(len(labels))
	for i, name := range w.names {
		m.Label[i] = w.pair(name, labels[w.order[i]])
	}
	if w.Counter {
		m.Counter = &dto.Counter{Value: new(value)}
	} else {
		m.Gauge = w.gauge(value)
	}
	w.metrics = append(w.metrics, m)
}

// exceeds reports whether the webhook has all series that it may have.
func (w *familyWriter) exceeds(labels []string) bool {
	if w.PerWebhook == 0 {
		return false
	}
	if w.perWebhook == nil {
		w.perWebhook = map[[3]string]int{}
	}
	webhook := [3]string(labels[:3])
	w.perWebhook[webhook]++
	return w.perWebhook[webhook] > w.PerWebhook
}

// appendTo appends the family, if it has any series.
func (w *familyWriter) appendTo(out []*dto.MetricFamily) []*dto.MetricFamily {
	if len(w.metrics) == 0 {
		return out
	}
	kind := dto.MetricType_GAUGE
	if w.Counter {
		kind = dto.MetricType_COUNTER
	}
	return append(out, &dto.MetricFamily{Name: new(w.Series()), Help: new(w.Help), Type: &kind, Metric: w.metrics})
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

// arena holds what the series of one scrape have in common, and the hashes of those
// of the current family. It allocates by the block: a scrape is tens of thousands of
// small objects that become garbage together.
type arena struct {
	seed    maphash.Seed
	seen    map[uint64]struct{}
	pairs   map[[2]string]*dto.LabelPair
	values  map[float64]*dto.Gauge
	metrics []dto.Metric
	free    []*dto.LabelPair
}

// newArena has room for a series of each webhook of the Report, with a name of its own.
func newArena(r *classify.Report) *arena {
	return &arena{
		seed:   maphash.MakeSeed(),
		seen:   make(map[uint64]struct{}, len(r.Profiles)),
		pairs:  make(map[[2]string]*dto.LabelPair, len(r.Profiles)),
		values: map[float64]*dto.Gauge{},
	}
}

// blockSize is how many objects are allocated at once.
const blockSize = 512

func (a *arena) metric() *dto.Metric {
	if len(a.metrics) == 0 {
		a.metrics = make([]dto.Metric, blockSize)
	}
	m := &a.metrics[0]
	a.metrics = a.metrics[1:]
	return m
}

func (a *arena) labels(n int) []*dto.LabelPair {
	if len(a.free) < n {
		a.free = make([]*dto.LabelPair, max(n, 8*blockSize))
	}
	out := a.free[:n:n]
	a.free = a.free[n:]
	return out
}

// pair returns the label, each once.
func (a *arena) pair(name, value string) *dto.LabelPair {
	key := [2]string{name, value}
	pair, known := a.pairs[key]
	if !known {
		pair = &dto.LabelPair{Name: new(name), Value: new(value)}
		a.pairs[key] = pair
	}
	return pair
}

// gauge returns the value, each once: nearly all are 1.
func (a *arena) gauge(value float64) *dto.Gauge {
	gauge, known := a.values[value]
	if !known {
		gauge = &dto.Gauge{Value: new(value)}
		a.values[value] = gauge
	}
	return gauge
}

func (a *arena) hash(labels []string) uint64 {
	var h maphash.Hash
	h.SetSeed(a.seed)
	for _, l := range labels {
		h.WriteString(l)
		// The byte occurs in no valid UTF-8, so no two sets of labels read alike.
		h.WriteByte(0xff)
	}
	return h.Sum64()
}
