package exporter

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// scraper answers scrapes. It keeps the text of each family of the Report for each
// format that is asked for, and encodes it again when its series change. What is about
// the program is encoded for each scrape; that is little.
type scraper struct {
	collector
	// failed answers where own cannot be gathered completely.
	failed http.Handler
	seed   maphash.Seed

	mu sync.Mutex
	// report is the one that sums are of: they identify the series of its families,
	// of those that were asked for.
	report *classify.Report
	sums   map[string]uint64
	texts  map[expfmt.Format]map[string]encoded
}

func newScraper(c collector, failed http.Handler) *scraper {
	return &scraper{collector: c, failed: failed, seed: maphash.MakeSeed(), texts: map[expfmt.Format]map[string]encoded{}}
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
	own, err := s.own.Gather()
	if err != nil {
		s.failed.ServeHTTP(w, r)
		return
	}
	format := expfmt.NegotiateAccept(r.Header, expfmt.DefaultOpenMetricsAcceptedFormats()...)
	names := r.URL.Query()["name[]"]
	texts := map[string][]byte{}
	if report := s.current(); report != nil {
		texts = s.textsOf(report, format, asked(s.families, names))
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

// asked returns the families whose series have one of the names, all where there are
// none. What is dropped is known once all are encoded.
func asked(families []Family, names []string) []Family {
	if len(names) == 0 || slices.Contains(names, seriesDropped.Series()) {
		return families
	}
	return slices.DeleteFunc(slices.Clone(families), func(f Family) bool { return !slices.Contains(names, f.Series()) })
}

// condition is the family that follows the clock though the Report does not change.
const condition = "condition"

// textsOf returns these families of the Report, encoded, and of all of them also what
// they drop. The caller may add to them.
func (s *scraper) textsOf(r *classify.Report, format expfmt.Format, families []Family) map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.report == nil || !r.SameAs(s.report) {
		s.sums = map[string]uint64{}
	}
	s.report = r
	delete(s.sums, Prefix+condition)
	kept, dropped := s.kept(format), map[string]int{}
	out := make(map[string][]byte, len(families))
	for _, f := range families {
		name := f.Series()
		if s.sums[name] == 0 {
			s.sums[name] = s.sum(f, r)
		}
		if sum := s.sums[name]; kept[name].sum != sum {
			w := written(f, r)
			kept[name] = encoded{encode(format, w.families()), sum, w.dropped}
		}
		out[name], dropped[name] = kept[name].text, kept[name].dropped
	}
	if len(families) == len(s.families) {
		out[seriesDropped.Series()] = encode(format, drops(families, dropped))
	}
	return out
}

// kept returns the texts of the format.
func (s *scraper) kept(format expfmt.Format) map[string]encoded {
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
// cannot be encoded, as promhttp does.
func encode(format expfmt.Format, families []*dto.MetricFamily) []byte {
	var out bytes.Buffer
	encoder := expfmt.NewEncoder(&out, format)
	for _, f := range families {
		_ = encoder.Encode(f)
	}
	return slices.Clip(out.Bytes())
}
