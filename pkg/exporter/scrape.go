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

// scraper answers scrapes. It keeps the text of each family for each format that is asked
// for, and encodes it again when its series change: most scrapes find few that did. What
// is about the program is encoded for each scrape; that is little.
type scraper struct {
	collector
	// failed answers where own cannot be gathered completely.
	failed http.Handler
	seed   maphash.Seed

	mu    sync.Mutex
	texts map[expfmt.Format]map[string]encoded
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
	kept, dropped := s.kept(format), map[string]int{}
	out := make(map[string][]byte, len(s.families))
	for _, f := range s.families {
		name := f.Series()
		if sum := s.sum(f, r); kept[name].sum != sum {
			w := written(f, r)
			kept[name] = encoded{encode(format, w.families()), sum, w.dropped}
		}
		out[name], dropped[name] = kept[name].text, kept[name].dropped
	}
	out[seriesDropped.Series()] = encode(format, drops(s.families, dropped))
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
