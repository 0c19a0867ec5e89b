package exporter

import (
	"slices"
	"strings"

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

// drops is seriesDropped, of the families that drop so many series each.
func drops(families []Family, dropped map[string]int) []*dto.MetricFamily {
	w := newFamilyWriter(seriesDropped)
	for _, f := range families {
		w.send(float64(dropped[f.Series()]), f.Series())
	}
	return w.families()
}

// familyWriter keeps a family within its bound and free of duplicates: one
// duplicate would fail the whole scrape.
type familyWriter struct {
	Family
	// names are the labels as series carry them: sorted. order is the index of
	// each in the family's order.
	names         []string
	order         []int
	writtenSeries map[string]bool
	metrics       []*dto.Metric
	dropped       int
}

func newFamilyWriter(f Family) *familyWriter {
	w := &familyWriter{Family: f, names: slices.Sorted(slices.Values(f.Labels)), writtenSeries: map[string]bool{}}
	for _, name := range w.names {
		w.order = append(w.order, slices.Index(f.Labels, name))
	}
	return w
}

// written returns a writer of the family's series.
func written(f Family, r *classify.Report) *familyWriter {
	w := newFamilyWriter(f)
	f.Collect(r, w.send)
	return w
}

// send sends one series.
func (w *familyWriter) send(value float64, labels ...string) {
	if len(w.metrics) >= w.bound() {
		w.dropped++
		return
	}
	id := strings.Join(labels, "\xff") // occurs in no valid UTF-8
	if w.writtenSeries[id] {
		return
	}
	w.writtenSeries[id] = true
	m := &dto.Metric{Label: make([]*dto.LabelPair, len(labels))}
	for i := range w.names {
		m.Label[i] = &dto.LabelPair{Name: &w.names[i], Value: &labels[w.order[i]]}
	}
	if w.Counter {
		m.Counter = &dto.Counter{Value: new(value)}
	} else {
		m.Gauge = &dto.Gauge{Value: new(value)}
	}
	w.metrics = append(w.metrics, m)
}

// families is the family, if it has any series.
func (w *familyWriter) families() []*dto.MetricFamily {
	if len(w.metrics) == 0 {
		return nil
	}
	kind := dto.MetricType_GAUGE
	if w.Counter {
		kind = dto.MetricType_COUNTER
	}
	return []*dto.MetricFamily{{Name: new(w.Series()), Help: new(w.Help), Type: &kind, Metric: w.metrics}}
}
