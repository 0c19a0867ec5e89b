package exporter

import (
	"bufio"
	"bytes"
	"compress/flate"
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

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// scraper answers scrapes of everything. Each family of a Report is encoded once
// for each format that is asked for, and again only when its series change: a
// scrape copies bytes. What is about the program, and the conditions, which
// follow the clock, are encoded for each scrape; they are few.
type scraper struct {
	collector
	// failed answers where own cannot be gathered completely.
	failed http.Handler
	seed   maphash.Seed
	// writers are *flate.Writers: each takes a megabyte.
	writers sync.Pool

	mu sync.Mutex
	// report is the one that formats are up to date with.
	report  *classify.Report
	formats map[encoding]map[string]block
	// sums identify the series of the families of the report.
	sums map[string]uint64
}

func newScraper(c collector, failed http.Handler) *scraper {
	return &scraper{collector: c, failed: failed, seed: maphash.MakeSeed(), formats: map[encoding]map[string]block{}}
}

// encoding is a form in which scrapes are answered.
type encoding struct {
	format     expfmt.Format
	compressed bool
}

// encoder encodes families.
type encoder struct {
	encoding
	// writer compresses; nil where nothing is compressed.
	writer *flate.Writer
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

func (s *scraper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	own, err := s.own.Gather()
	if err != nil {
		s.failed.ServeHTTP(w, r)
		return
	}
	e := encoder{encoding{expfmt.NegotiateAccept(r.Header, expfmt.DefaultOpenMetricsAcceptedFormats()...), acceptsGzip(r.Header)}, nil}
	if e.compressed {
		e.writer = s.compressor()
		defer s.writers.Put(e.writer)
	}
	blocks := map[string]block{}
	if report := s.current(); report != nil {
		blocks = s.blocks(report, e)
		own = append(own, conditionFamily(report)...)
	}
	for _, family := range own {
		blocks[family.GetName()] = e.encode([]*dto.MetricFamily{family})
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

// compressor returns a writer for one scrape.
func (s *scraper) compressor() *flate.Writer {
	if w, ok := s.writers.Get().(*flate.Writer); ok {
		return w
	}
	w, err := flate.NewWriter(io.Discard, flate.BestSpeed)
	if err != nil {
		panic(err) // unreachable: the level is valid
	}
	return w
}

// conditionFamily returns the conditions as they are now.
func conditionFamily(r *classify.Report) []*dto.MetricFamily {
	var out []*dto.MetricFamily
	for _, f := range named(Families, []string{Prefix + condition}) {
		writer := newFamilyWriter(f, newArena())
		f.Collect(r, writer.send)
		out = writer.appendTo(out)
	}
	return out
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

// condition is the family that changes though the Report does not.
const condition = "condition"

// blocks returns the families of the Report but condition, encoded; the caller
// may add to them.
func (s *scraper) blocks(r *classify.Report, e encoder) map[string]block {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.report == nil || !r.SameAs(s.report) {
		s.report, s.sums = r, s.fingerprints(r)
	}
	if s.formats[e.encoding] == nil && len(s.formats) >= maxEncodings {
		clear(s.formats)
	}
	out := s.encodeChanged(r, e, s.formats[e.encoding])
	s.formats[e.encoding] = out
	return maps.Clone(out)
}

// fingerprints identify the series of each family: those with the same one are
// the same.
func (s *scraper) fingerprints(r *classify.Report) map[string]uint64 {
	out := make(map[string]uint64, len(s.families))
	var h maphash.Hash
	h.SetSeed(s.seed)
	var number [8]byte
	emit := func(value float64, labels ...string) {
		h.Write(binary.LittleEndian.AppendUint64(number[:0], math.Float64bits(value)))
		for _, l := range labels {
			h.WriteString(l)
			h.WriteByte(0xff) // occurs in no valid UTF-8
		}
	}
	for _, f := range s.families {
		h.Reset()
		f.Collect(r, emit)
		out[f.Series()] = h.Sum64()
	}
	return out
}

// encodeChanged encodes the families whose series are others than those of the
// blocks.
func (s *scraper) encodeChanged(r *classify.Report, e encoder, before map[string]block) map[string]block {
	out := make(map[string]block, len(s.families)+1)
	memory := newArena()
	drops := newFamilyWriter(seriesDropped, newArena())
	changed := false
	for _, f := range s.families {
		name := f.Series()
		b, known := before[name]
		if f.Name != condition && (!known || b.sum != s.sums[name]) {
			changed = true
			writer := newFamilyWriter(f, memory)
			f.Collect(r, writer.send)
			b = e.encode(writer.appendTo(nil))
			b.sum, b.dropped = s.sums[name], writer.dropped
		}
		if f.Name != condition {
			out[name] = b
		}
		drops.send(float64(b.dropped), name)
	}
	if !changed {
		return before
	}
	out[seriesDropped.Series()] = e.encode(drops.appendTo(nil))
	return out
}

// encode encodes families, of which there is one or none.
func (e encoder) encode(families []*dto.MetricFamily) block {
	var b block
	var data bytes.Buffer
	sum := crc32.NewIEEE()
	text := io.MultiWriter(sum, counting{&b.size})
	if !e.compressed {
		e.encodeTo(io.MultiWriter(text, &data), families)
	} else if len(families) > 0 {
		e.writer.Reset(&data)
		e.encodeTo(io.MultiWriter(text, e.writer), families)
		_ = e.writer.Flush() // to memory, which never fails
	}
	b.data, b.crc = slices.Clip(data.Bytes()), sum.Sum32()
	return b
}

// encodeTo leaves out a family that cannot be encoded, as promhttp does: makeValid
// sees to it that there is none.
func (e encoding) encodeTo(w io.Writer, families []*dto.MetricFamily) {
	buffered := bufio.NewWriter(w)
	encoder := expfmt.NewEncoder(buffered, e.format)
	for _, f := range families {
		_ = encoder.Encode(f)
	}
	_ = buffered.Flush() // to memory, which never fails
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
func (e encoder) write(w io.Writer, blocks map[string]block) error {
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
func (e encoder) endStream(w io.Writer, crc uint32, size int64) error {
	e.writer.Reset(w)
	rest := e.finish()
	if _, err := e.writer.Write(rest); err != nil {
		return err
	}
	if err := e.writer.Close(); err != nil {
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
