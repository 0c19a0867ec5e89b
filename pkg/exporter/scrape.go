package exporter

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	collectorversion "github.com/prometheus/client_golang/prometheus/collectors/version"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// scraper answers scrapes. It keeps the text of each family for each format that is asked
// for, and encodes it again when its series change: most scrapes find few that did. What
// is about the program is encoded for each scrape; that is little. It is no
// prometheus.Collector, because a registry keeps several copies of each series,
// sorts them and compares them: with 5,000 webhooks, a scrape would take more
// memory than all the rest of the program.
type scraper struct {
	// current returns the Report, nil while there is none: unknown is not zero.
	current  func() *classify.Report
	families []Family
	own      prometheus.Gatherer
	seed     maphash.Seed

	mu    sync.Mutex
	texts map[expfmt.Format]map[string]encoded
}

func newScraper(current func() *classify.Report, families []Family, own prometheus.Gatherer) *scraper {
	return &scraper{
		current: current, families: families, own: own, seed: maphash.MakeSeed(),
		texts: map[expfmt.Format]map[string]encoded{},
	}
}

// maxFormats bounds what is kept: Prometheus asks for one, a human for another.
const maxFormats = 4

// encoded is the text of a family, the sum that identifies its series, and the number of
// those that are dropped.
type encoded struct {
	text    []byte
	sum     uint64
	dropped int
}

// ServeHTTP answers with everything, or with the families of the parameters name[].
func (s *scraper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	own, _ := s.own.Gather() // one bad series must not hide the others
	format := expfmt.NegotiateAccept(r.Header, expfmt.DefaultOpenMetricsAcceptedFormats()...)
	names := r.URL.Query()["name[]"]
	texts := map[string][]byte{}
	if report := s.current(); report != nil {
		texts = s.textsOf(report, format)
	}
	for _, family := range own {
		texts[family.GetName()] = encode(format, []*dto.MetricFamily{family})
	}
	if len(names) > 0 {
		maps.DeleteFunc(texts, func(name string, _ []byte) bool { return !slices.Contains(names, name) })
	}
	w.Header().Add("Vary", "Accept")
	w.Header().Set("Content-Type", string(format))
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		_, _ = w.Write(texts[name]) // an error is a client that went away
	}
	if closer, ok := expfmt.NewEncoder(w, format).(expfmt.Closer); ok {
		_ = closer.Close()
	}
}

// textsOf returns the families of the Report, encoded, and what they drop. The caller may
// add to them.
func (s *scraper) textsOf(r *classify.Report, format expfmt.Format) map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	encodings, dropped := s.keptEncodings(format), map[string]int{}
	out := make(map[string][]byte, len(s.families))
	for _, f := range s.families {
		name := f.Series()
		if sum := s.sum(f, r); encodings[name].sum != sum {
			w := written(f, r)
			encodings[name] = encoded{encode(format, w.families()), sum, w.dropped}
		}
		out[name], dropped[name] = encodings[name].text, encodings[name].dropped
	}
	out[seriesDropped.Series()] = encode(format, drops(s.families, dropped))
	return out
}

func (s *scraper) keptEncodings(format expfmt.Format) map[string]encoded {
	if s.texts[format] == nil {
		if len(s.texts) >= maxFormats {
			clear(s.texts)
		}
		s.texts[format] = map[string]encoded{}
	}
	return s.texts[format]
}

// sum identifies the series of a family of the Report: those with the same one are
// the same. It is never 0.
func (s *scraper) sum(f Family, r *classify.Report) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	var number [8]byte
	f.Collect(r, func(value float64, labels ...string) {
		h.Write(binary.LittleEndian.AppendUint64(number[:0], math.Float64bits(value)))
		for _, l := range labels {
			h.WriteString(l)
			h.WriteByte(0xff) // occurs in no valid UTF-8
		}
	})
	return max(h.Sum64(), 1)
}

// encode encodes families, of which there is one or none. It leaves out one that
// cannot be encoded.
func encode(format expfmt.Format, families []*dto.MetricFamily) []byte {
	var out bytes.Buffer
	encoder := expfmt.NewEncoder(&out, format)
	for _, f := range families {
		_ = encoder.Encode(f)
	}
	return slices.Clip(out.Bytes())
}

// NewHandler serves the metrics: the families over the Report that current returns, those of
// the process, the collectors of own, and what is observed, which may be nil.
func NewHandler(current func() *classify.Report, families []Family, observed prometheus.Gatherer,
	own ...prometheus.Collector,
) http.Handler {
	own = slices.Concat(own, []prometheus.Collector{
		collectorversion.NewCollector(program),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	})
	gatherers := prometheus.Gatherers{newRegistry(own...)}
	if observed != nil {
		gatherers = append(gatherers, observed)
	}
	return compressed(newScraper(current, families, gatherers))
}

// compressed compresses what the handler answers for clients that take gzip, as all
// versions of Prometheus do.
func compressed(h http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.CompressionLevel(gzip.BestSpeed), gzhttp.EnableZstd(false))
	if err != nil {
		panic(err) // these options are always valid
	}
	return wrap(h)
}

func newRegistry(own ...prometheus.Collector) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(own...)
	return registry
}

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

func written(f Family, r *classify.Report) *familyWriter {
	w := newFamilyWriter(f)
	f.Collect(r, w.send)
	return w
}

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
