package exporter

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"hash/maphash"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/flate"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// scraper answers scrapes. Each family of a Report is encoded once for each format
// that is asked for, and again only when its series change: a scrape copies bytes.
// What is about the program is encoded for each scrape; that is little.
type scraper struct {
	collector
	// failed answers where own cannot be gathered completely.
	failed http.Handler
	seed   maphash.Seed

	mu sync.Mutex
	// report is the one that sums are of: they identify the series of its families,
	// of those that were asked for.
	report  *classify.Report
	sums    map[string]uint64
	formats map[encoding]map[string]block
}

func newScraper(c collector, failed http.Handler) *scraper {
	return &scraper{collector: c, failed: failed, seed: maphash.MakeSeed(), formats: map[encoding]map[string]block{}}
}

// encoding is a form in which scrapes are answered.
type encoding struct {
	format     expfmt.Format
	compressed bool
}

// encoder encodes the families of one scrape.
type encoder struct {
	encoding
	// buffer is made where something is encoded, not found ready.
	buffer func() *bufio.Writer
}

func newEncoder(h http.Header) encoder {
	format := expfmt.NegotiateAccept(h, expfmt.DefaultOpenMetricsAcceptedFormats()...)
	return encoder{encoding{format, acceptsGzip(h)}, sync.OnceValue(func() *bufio.Writer { return bufio.NewWriterSize(nil, deflateSize) })}
}

// maxEncodings bounds what is kept: Prometheus asks for one, a human for another.
const maxEncodings = 4

// block is an encoded family. Compressed ones are parts of one deflate stream,
// which can be put together in any order.
type block struct {
	data []byte
	// sum identifies the series that are encoded, and dropped counts those that
	// are not.
	sum     uint64
	dropped int
	// crc and size are those of the text, for the end of a gzip stream.
	crc  uint32
	size int64
}

// ServeHTTP answers with everything, or with the families of the parameters name[].
func (s *scraper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	names := r.URL.Query()["name[]"]
	own, err := s.gatherOwn(names)
	if err != nil {
		s.failed.ServeHTTP(w, r)
		return
	}
	e := newEncoder(r.Header)
	blocks := map[string]block{}
	if report := s.current(); report != nil {
		blocks = s.blocks(report, e, asked(s.families, names))
	}
	for _, family := range own {
		blocks[family.GetName()] = e.encode([]*dto.MetricFamily{family})
	}
	if len(names) > 0 {
		maps.DeleteFunc(blocks, func(name string, _ block) bool { return !slices.Contains(names, name) })
	}
	w.Header().Add("Vary", "Accept")
	w.Header().Add("Vary", "Accept-Encoding")
	w.Header().Set("Content-Type", string(e.format))
	if e.compressed {
		w.Header().Set("Content-Encoding", "gzip")
	}
	// An error here is a client that went away.
	_ = e.write(w, blocks)
}

// gatherOwn gathers what is about the program, unless only other names are asked
// for.
func (s *scraper) gatherOwn(names []string) ([]*dto.MetricFamily, error) {
	if len(names) > 0 && !slices.ContainsFunc(names, isOwn) {
		return nil, nil
	}
	return s.own.Gather()
}

// asked returns the families whose series have one of the names, all where there are
// none. What is dropped is known once all are encoded.
func asked(families []Family, names []string) []Family {
	if len(names) == 0 || slices.Contains(names, seriesDropped.Series()) {
		return families
	}
	return withNames(families, names)
}

// acceptsGzip reports whether the client takes gzip.
func acceptsGzip(h http.Header) bool {
	for part := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		name, params, _ := strings.Cut(part, ";")
		if strings.TrimSpace(name) != "gzip" {
			continue
		}
		_, quality, weighted := strings.Cut(params, "q=")
		value, err := strconv.ParseFloat(strings.TrimSpace(quality), 64)
		return !weighted || err == nil && value > 0
	}
	return false
}

// condition is the family that follows the clock though the Report does not change.
const condition = "condition"

// blocks returns these families of the Report, encoded, and of all of them also what
// they drop. The caller may add to them.
func (s *scraper) blocks(r *classify.Report, e encoder, families []Family) map[string]block {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.report == nil || !r.SameAs(s.report) {
		s.sums = s.sumsOfNext(r)
	}
	s.report = r
	delete(s.sums, Prefix+condition)
	known := s.known(e.encoding)
	memory := sync.OnceValue(func() *arena { return newArena(r) })
	dropped := map[string]int{}
	if len(families) == len(s.families) {
		drops := seriesDropped
		drops.Collect = func(_ *classify.Report, emit func(float64, ...string)) {
			for _, f := range s.families {
				emit(float64(dropped[f.Series()]), f.Series())
			}
		}
		families = append(slices.Clip(families), drops)
	}
	out := make(map[string]block, len(families))
	for _, f := range families {
		name := f.Series()
		sum, isKnown := s.sums[name]
		if !isKnown {
			sum = s.sum(f, r)
			s.sums[name] = sum
		}
		if known[name].sum != sum {
			writer := written(f, r, memory())
			b := e.encode(writer.appendTo(nil))
			b.sum, b.dropped = sum, writer.dropped
			known[name] = b
		}
		out[name], dropped[name] = known[name], known[name].dropped
	}
	return out
}

// known returns the blocks of the encoding.
func (s *scraper) known(e encoding) map[string]block {
	if s.formats[e] == nil {
		if len(s.formats) >= maxEncodings {
			clear(s.formats)
		}
		s.formats[e] = map[string]block{}
	}
	return s.formats[e]
}

// sumsOfNext are the sums that hold for the next Report as well: those of families of
// which the webhooks that changed have the same series as before.
func (s *scraper) sumsOfNext(next *classify.Report) map[string]uint64 {
	out := map[string]uint64{}
	if s.report == nil {
		return out
	}
	was, now := without(s.report, next), without(next, s.report)
	for _, f := range s.families {
		if sum, known := s.sums[f.Series()]; known && f.OfFacts && s.sum(f, was) == s.sum(f, now) {
			out[f.Series()] = sum
		}
	}
	return out
}

// without is the Report without the webhooks whose Facts the other one has.
func without(r, other *classify.Report) *classify.Report {
	shared := make(map[*classify.Facts]bool, len(other.Profiles))
	for i := range other.Profiles {
		shared[other.Profiles[i].Facts] = true
	}
	out := *r
	out.Profiles = nil
	for i := range r.Profiles {
		if !shared[r.Profiles[i].Facts] {
			out.Profiles = append(out.Profiles, r.Profiles[i])
		}
	}
	return &out
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
// cannot be encoded, as promhttp does: makeValid sees to it that there is none.
func (e encoder) encode(families []*dto.MetricFamily) block {
	var b block
	var data bytes.Buffer
	var out io.Writer = &data
	if e.compressed {
		out = deflater{&data}
	}
	sum, buffer := crc32.NewIEEE(), e.buffer()
	buffer.Reset(io.MultiWriter(sum, counting{&b.size}, out))
	encoder := expfmt.NewEncoder(buffer, e.format)
	for _, f := range families {
		_ = encoder.Encode(f)
	}
	_ = buffer.Flush() // to memory, which never fails
	b.data, b.crc = slices.Clip(data.Bytes()), sum.Sum32()
	return b
}

// deflateSize is how much is compressed at once: the largest block of
// flate.StatelessDeflate.
const deflateSize = 1<<15 - 1

// deflater compresses each write for itself, and keeps nothing in between: a
// flate.Writer would take a megabyte.
type deflater struct{ out io.Writer }

func (d deflater) Write(b []byte) (int, error) {
	return len(b), flate.StatelessDeflate(d.out, b, false, nil)
}

// counting counts what is written.
type counting struct{ n *int64 }

func (c counting) Write(b []byte) (int, error) {
	*c.n += int64(len(b))
	return len(b), nil
}

// finish is what ends the text of the format.
func (e encoding) finish() []byte {
	var b bytes.Buffer
	if closer, ok := expfmt.NewEncoder(&b, e.format).(expfmt.Closer); ok {
		_ = closer.Close() // to memory, which never fails
	}
	return b.Bytes()
}

// gzipHeader begins a gzip stream without a file name. Source: RFC 1952.
var gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255}

// write writes the blocks, sorted by name, as one text.
func (e encoding) write(w io.Writer, blocks map[string]block) error {
	names := slices.Sorted(maps.Keys(blocks))
	if !e.compressed {
		for _, name := range names {
			if _, err := w.Write(blocks[name].data); err != nil {
				return err
			}
		}
		_, err := w.Write(e.finish())
		return err
	}
	if _, err := w.Write(gzipHeader); err != nil {
		return err
	}
	crc, size := uint32(0), int64(0)
	for _, name := range names {
		b := blocks[name]
		if _, err := w.Write(b.data); err != nil {
			return err
		}
		crc, size = combine(crc, b.crc, b.size), size+b.size
	}
	return e.endStream(w, crc, size)
}

// endStream ends a gzip stream of a text so far with the checksum and the size.
func (e encoding) endStream(w io.Writer, crc uint32, size int64) error {
	rest := e.finish()
	if err := flate.StatelessDeflate(w, rest, true, nil); err != nil {
		return err
	}
	crc, size = crc32.Update(crc, crc32.IEEETable, rest), size+int64(len(rest))
	end := binary.LittleEndian.AppendUint32(nil, crc)
	_, err := w.Write(binary.LittleEndian.AppendUint32(end, uint32(size)))
	return err
}

// combine is the CRC-32 of two texts put together, of which the second has the
// size: the first is multiplied by x^(8*size), modulo the polynomial. It costs
// the digits of the size.
func combine(first, second uint32, size int64) uint32 {
	power := uint32(1) << 23 // x^8: bits are reflected, x^0 is the highest
	for n := size; n > 0; n >>= 1 {
		if n&1 == 1 {
			first = multiply(first, power)
		}
		power = multiply(power, power)
	}
	return first ^ second
}

// multiply multiplies two polynomials modulo that of CRC-32.
func multiply(a, b uint32) uint32 {
	var product uint32
	for bit := uint32(1) << 31; bit > 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
		}
		carry := b & 1
		b >>= 1
		if carry == 1 {
			b ^= crc32.IEEE
		}
	}
	return product
}
