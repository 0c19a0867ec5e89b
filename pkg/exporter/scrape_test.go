package exporter

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// collector has the current Report gathered by client_golang, without anything kept.
type collector struct {
	current  func() *classify.Report
	families []Family
	own      prometheus.Gatherer
}

func (c collector) Gather() ([]*dto.MetricFamily, error) {
	out, err := c.own.Gather()
	if r := c.current(); r != nil {
		dropped := map[string]int{}
		for _, f := range c.families {
			w := written(f, r)
			dropped[f.Series()] = w.dropped
			out = append(out, w.families()...)
		}
		out = append(out, drops(c.families, dropped)...)
	}
	slices.SortFunc(out, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out, err
}

// accepts are what clients ask for: promtool and a browser, Prometheus of
// several versions.
var accepts = []string{
	"",
	"text/html,*/*;q=0.8",
	"text/plain;version=0.0.4",
	"text/plain;version=1.0.0;escaping=allow-utf-8",
	"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4",
	"application/openmetrics-text;version=0.0.1",
	"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
	"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text",
}

// TestScrapeIsWhatPromhttpWrites: byte for byte, in each format, compressed or
// not, whatever was scraped before.
func TestScrapeIsWhatPromhttpWrites(t *testing.T) {
	var now *classify.Report
	registry := newRegistry(newOwn().Duration, newOwn().WriteErrors)
	reference := promhttp.HandlerFor(collector{func() *classify.Report { return now }, Families, registry}, promhttp.HandlerOpts{EnableOpenMetrics: true})
	s := newScraper(func() *classify.Report { return now }, Families, registry)
	served := compressed(s)
	degraded := *reporttest.Report()
	degraded.Conditions = []metav1.Condition{{Type: "Degraded", Status: metav1.ConditionTrue, Reason: "Because"}}
	targets := []string{
		"/metrics", "/metrics?name[]=webhook_auditor_findings", "/metrics?name[]=webhook_auditor_condition&name[]=webhook_auditor_webhook_info",
		"/metrics?name[]=webhook_auditor_series_dropped", "/metrics?name[]=webhook_auditor_evaluation_duration_seconds", "/metrics?name[]=unknown",
	}
	compressions := []string{"", "gzip", "deflate, gzip;q=1.0, *;q=0.5", "gzip;q=0", "zstd"}
	for name, r := range map[string]*classify.Report{"none": nil, "report": reporttest.Report(), "again": reporttest.Report(), "healthy": reporttest.Healthy(), "conditions": &degraded, "many": large(DefaultMaxSeries + 1)} {
		now = r
		accepts, compressions, targets := accepts, compressions, targets
		if name == "many" { // one form is enough, of so much
			accepts, compressions, targets = accepts[4:5], compressions[1:2], targets[:1]
		}
		for _, accept := range accepts {
			for _, compression := range compressions {
				for _, target := range targets {
					request := httptest.NewRequest(http.MethodGet, target, nil)
					request.Header.Set("Accept", accept)
					request.Header.Set("Accept-Encoding", compression)
					want, got := httptest.NewRecorder(), httptest.NewRecorder()
					reference.ServeHTTP(want, request)
					served.ServeHTTP(got, request)
					encoding := want.Header().Get("Content-Encoding")
					text, gotten := body(t, want), body(t, got)
					if len(text) < gzhttp.DefaultMinSize {
						encoding = ""
					}
					want.Header().Set("Content-Encoding", encoding)
					for _, header := range []string{"Content-Type", "Content-Encoding"} {
						expect.Equal(t, want.Header().Get(header), got.Header().Get(header))
					}
					if !bytes.Equal(text, gotten) {
						t.Fatalf("%s, %s, %s, %s: -promhttp +got:\n%s", name, target, accept, compression, cmp.Diff(string(text), string(gotten)))
					}
				}
			}
		}
	}
	if most := 4; len(s.texts) > most {
		t.Errorf("%d forms are kept, want at most %d", len(s.texts), most)
	}
}

// body is the text of an answer. Of a gzip stream it reads the first member only,
// as many clients do, up to the checksum.
func body(t *testing.T, w *httptest.ResponseRecorder) []byte {
	t.Helper()
	if w.Header().Get("Content-Encoding") != "gzip" {
		return w.Body.Bytes()
	}
	r := must.Get(gzip.NewReader(w.Body))(t)
	r.Multistream(false)
	out, err := io.ReadAll(r)
	if err != nil || w.Body.Len() > 0 {
		t.Fatalf("%v, and %d bytes after the stream", err, w.Body.Len())
	}
	return out
}

// TestScrapeEncodesWhatChanged: the texts of other families are kept.
func TestScrapeEncodesWhatChanged(t *testing.T) {
	s := newScraper(nil, Families, prometheus.NewRegistry())
	format := expfmt.NewFormat(expfmt.TypeTextPlain)
	before := s.textsOf(reporttest.Report(), format)
	changed := reporttest.Report()
	changed.Findings = changed.Findings[:1]
	after := s.textsOf(changed, format)
	delete(before, seriesDropped.Series())
	for name := range before {
		same := len(before[name]) == 0 || &before[name][0] == &after[name][0]
		if other := name == Prefix+"finding" || name == Prefix+"findings"; same == other {
			t.Errorf("%s: kept: %t", name, same)
		}
	}
}

func get(t *testing.T, h http.Handler, target string, header ...string) (int, string) {
	t.Helper()
	request := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request)
	body := must.Get(io.ReadAll(w.Body))(t)
	return w.Code, string(body)
}

func TestMetricsFollowTheReport(t *testing.T) {
	var published atomic.Pointer[classify.Report]
	published.Store(reporttest.Report())
	h := NewHandler(published.Load, Families, nil, newOwn().Duration)
	const series = `webhook_auditor_finding{check="no-ready-endpoints",configuration="policy"`
	if _, body := get(t, h, "/metrics"); !strings.Contains(body, series) {
		t.Errorf("got:\n%s\nwant %s", body, series)
	}
	published.Store(reporttest.Healthy())
	_, body := get(t, h, "/metrics")
	if strings.Contains(body, series) {
		t.Errorf("a resolved finding stays: %s", series)
	}
	expect.Contains(t, body, "webhook_auditor_build_info{", "webhook_auditor_evaluation_duration_seconds_count 0", "go_goroutines ")
}
