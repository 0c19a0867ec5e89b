package observed

import (
	"context"
	_ "embed"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// serve answers every request alike, until the test ends.
func serve(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return server
}

// get is a Target's Fetch.
func get(url string) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return nil, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil, err
		}
		if response.StatusCode != http.StatusOK {
			return nil, errors.New(response.Status)
		}
		return response.Body, nil
	}
}

// hang answers nothing until the client gives up.
func hang(_ http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body) // the server notices the end of a connection only then
	<-r.Context().Done()
}

var errImpatient = errors.New("no answer within the test's patience")

func impatient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, errImpatient)
	t.Cleanup(cancel)
	return ctx
}

func write(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }
}

// TestBadAPIServers: each bad source is named with its reason, and the good one
// beside it is read all the same.
func TestBadAPIServers(t *testing.T) {
	good := started(noon) + fmt.Sprintf(oneCall, 1)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"forbidden":          {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }, "403"},
		"HTML":               {write("<html>\n<body>Sign in</body></html>\n"), "none of an API server"},
		"another exporter":   {write("# TYPE go_goroutines gauge\ngo_goroutines 1\n"), "none of an API server"},
		"broken":             {write(good + "apiserver_admission_webhook_request_total{name=\n"), "parsing error"},
		"control characters": {write("apiserver_admission_webhook_request_total{\x1b[31m\x00\n"), "parsing error"},
		"one endless line":   {write(strings.Repeat("x", 1<<20)), "a line is too long"},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000000")
			io.WriteString(w, good)
		}, "unexpected EOF"},
		"silent": {hang, errImpatient.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			bad, fine := serve(t, c.answer), serve(t, write(good))
			targets := []inventory.MetricsServer{{Address: "fine:6443", Fetch: get(fine.URL)}, {Address: "bad:6443", Fetch: get(bad.URL)}} // one after the other
			scrape := func() []Scrape {
				if name == "silent" {
					return ScrapeAll(impatient(t), targets)
				}
				return ScrapeAll(t.Context(), targets)
			}
			o, errs := Difference(scrape(), scrape())
			if len(errs) != 1 || !strings.Contains(errs[0].Object, "bad:6443") || !strings.Contains(errs[0].Message, c.want) {
				t.Errorf("errors are %v, want one of bad:6443 with %q", errs, c.want)
			}
			for _, e := range errs {
				if strings.ContainsAny(e.Message, "\x00\x1b\n") {
					t.Errorf("the error carries control characters: %q", e.Message)
				}
			}
			if o == nil || len(o.Servers) != 1 || o.Servers[0].Address != "fine:6443" {
				t.Errorf("the other API server was not read: %+v", o)
			}
		})
	}
}

// TestManySeries: time stands still while the source is read, however long that takes.
func TestManySeries(t *testing.T) {
	text := strings.Repeat("apiserver_admission_webhook_request_total{name=\"a\",type=\"admit\"} 1\n", 500_000)
	fetch := func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
	synctest.Test(t, func(t *testing.T) {
		s := scrape(t.Context(), inventory.MetricsServer{Address: "bad:6443", Fetch: fetch})
		if s.err == nil || !strings.Contains(s.err.Error(), "more series") {
			t.Errorf("error is %v, want one about more series", s.err)
		}
	})
}

// TestScrapesOneAfterTheOther: what API servers serve is never in memory side by side.
func TestScrapesOneAfterTheOther(t *testing.T) {
	open, most := 0, 0
	fetch := func(context.Context) (io.ReadCloser, error) {
		open++
		most = max(most, open)
		return closing{strings.NewReader(started(noon) + fmt.Sprintf(oneCall, 1)), func() { open-- }}, nil
	}
	for _, s := range ScrapeAll(t.Context(), []inventory.MetricsServer{{Address: "a", Fetch: fetch}, {Address: "b", Fetch: fetch}, {Address: "c", Fetch: fetch}}) {
		if s.err != nil || len(s.samples) == 0 {
			t.Errorf("%s: %d samples, %v", s.address, len(s.samples), s.err)
		}
	}
	expect.Equal(t, 1, most) // at a time
}

type closing struct {
	io.Reader
	end func()
}

func (c closing) Close() error {
	c.end()
	return nil
}

// TestNothingToWaitFor: where no API server can be scraped, the span is not
// waited for.
func TestNothingToWaitFor(t *testing.T) {
	refuse := func(context.Context) (io.ReadCloser, error) { return nil, errors.New("forbidden") }
	o, _, errs := APIServers(t.Context(), []inventory.MetricsServer{{Address: "a", Fetch: refuse}, {Address: "b", Fetch: refuse}}, 24*time.Hour)
	if o != nil || len(errs) != 2 {
		t.Errorf("got %v, %v", o, errs)
	}
}

func TestBadPrometheus(t *testing.T) {
	page := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html>Sign in</html>")
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"HTML":         {page, "--prometheus-url must be"},
		"unauthorized": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, "--prometheus-token-file"},
		"forbidden":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, "--prometheus-token-file"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.invalid/", http.StatusFound)
		}, "bad response code 302"},
		"overloaded": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, "server error: 503"},
		"a matrix":   {write(`{"status":"success","data":{"resultType":"matrix","result":[]}}`), "matrix"},
		"no data":    {write(`{"status":"success","data":{"resultType":"vector","result":[]}}`), "no series of API servers"},
		"NaN":        {write(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"name":"a","type":"admit","le":"1"},"value":[1,"NaN"]}]}}`), "NaN"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := io.WriteString(w, strings.Repeat(" ", 1<<20)); err != nil {
					return
				}
			}
		}, "longer than"},
		"silent": {hang, errImpatient.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, c.answer)
			ctx := t.Context()
			if name == "silent" {
				ctx = impatient(t)
			}
			secret := strings.Replace(server.URL, "http://", "http://user:secret@", 1)
			o, errs := Prometheus{URL: secret, Range: 5 * time.Minute}.Observe(ctx)
			if o != nil || len(errs) != 1 || !strings.Contains(errs[0].Message, c.want) || !strings.Contains(errs[0].Object, server.URL) {
				t.Errorf("got %+v, %v, want an error with %q", o, errs, c.want)
			}
			if strings.Contains(fmt.Sprint(errs), "secret") {
				t.Errorf("the error shows the password: %v", errs)
			}
		})
	}
}

// TestToken: the token of the file goes to Prometheus, read anew each time.
func TestToken(t *testing.T) {
	file := must.File(t, "token", "s3cret\n")
	seen := make(chan string, 100)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Authorization")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	Prometheus{URL: server.URL, TokenFile: file, Range: time.Minute}.Observe(t.Context())
	expect.Equal(t, "Bearer s3cret", <-seen) // Authorization
	_, errs := Prometheus{URL: server.URL, TokenFile: file + "-missing", Range: time.Minute}.Observe(t.Context())
	if len(errs) != 1 || !strings.Contains(errs[0].Message, "token-missing") {
		t.Errorf("a missing file is not named: %v", errs)
	}
}

// TestCAFile: the certificate of Prometheus is verified by the CAs of the file.
func TestCAFile(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the handshake that is refused
	t.Cleanup(server.Close)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	file := must.File(t, "ca.crt", string(certificate))
	for caFile, want := range map[string]string{file: "503", "": "certificate", file + "-missing": "ca.crt-missing"} {
		_, errs := Prometheus{URL: server.URL, CAFile: caFile, Range: time.Minute}.Observe(t.Context())
		if len(errs) != 1 || !strings.Contains(errs[0].Message, want) {
			t.Errorf("with the CAs of %q: %v, want an error with %q", caFile, errs, want)
		}
	}
}

// prometheus answers queries as Prometheus does, of series in the notation of
// its rule tests, one sample a minute.
func prometheus(t *testing.T, series string, offset time.Duration) *httptest.Server {
	t.Helper()
	// The first sample sets the oldest time that the storage accepts, and series are
	// loaded in any order: not all of them start at 0.
	storage := promqltest.LoadedStorage(t, "load 1m\n\tstart 0\n\nload 1m\n"+series)
	t.Cleanup(func() { storage.Close() })
	engine := promqltest.NewTestEngine(t, false, 0, 10_000_000)
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		query, err := engine.NewInstantQuery(r.Context(), storage, nil, r.FormValue("query"), time.Unix(0, 0).Add(offset))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			json.NewEncoder(w).Encode(map[string]string{"status": "error", "errorType": "bad_data", "error": err.Error()})
			return
		}
		defer query.Close()
		vector, err := query.Exec(r.Context()).Vector()
		if err != nil {
			w.WriteHeader(http.StatusUnprocessableEntity)
			json.NewEncoder(w).Encode(map[string]string{"status": "error", "errorType": "execution", "error": err.Error()})
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "vector", "result": answered(vector)}})
	})
}

func answered(vector promql.Vector) []map[string]any {
	out := []map[string]any{}
	for _, s := range vector {
		out = append(out, map[string]any{"metric": s.Metric.Map(), "value": []any{float64(s.T) / 1000, model.SampleValue(s.F).String()}})
	}
	return out
}

//go:embed testdata/collected.txt
var collected string

// TestPrometheus: what Prometheus computes, in its own engine, 10 days after the
// start.
func TestPrometheus(t *testing.T) {
	server := prometheus(t, collected, 10*24*time.Hour)
	o, errs := Prometheus{URL: server.URL, Range: 10 * time.Minute}.Observe(t.Context())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	b := o.Webhooks[inventory.Series{Type: inventory.Mutating, Name: "pods"}]
	validating, mutating := o.Policies[inventory.Series{Type: inventory.ValidatingPolicy, Name: "team"}], o.Policies[inventory.Series{Type: inventory.MutatingPolicy, Name: "team"}]
	for what, c := range map[string]struct{ got, want float64 }{
		"calls a second": {b.CallsPerSecond, 1.5},
		"calls":          {b.Calls, 900},
		"refused":        {b.RefusedShare(), 0.1},
		"failed":         {b.FailedShare(), 0.1},
		"failed closed":  {b.Failures["calling_webhook_error"], 60},
		"failed open":    {b.FailedOpen, 30},
		"p50":            {b.P50.Seconds, 0.1},
		"p99":            {b.P99.Seconds, 0.492},
		"share":          {o.Share(b), 1},
		"scraped":        {float64(o.Scraped), 2},
		"denied":         {validating.Refused, 60},
		"passed":         {validating.FailedOpen, 60},
		"checks":         {validating.CallsPerSecond, 0.2},
		"p99 of checks":  {validating.P99.Seconds, 0.0099},
		"mutations":      {mutating.Calls, 120},
		"mutations fail": {mutating.FailedShare(), 0.75},
		"conversions":    {o.Webhooks[inventory.Series{Type: inventory.Conversion, Name: "widgets.example.com"}].FailedShare(), 0.5},
	} {
		if math.Abs(c.got-c.want) > 0.01*c.want {
			t.Errorf("%s: %g, want %g", what, c.got, c.want)
		}
	}
	week := o.CalledLastWeek
	pods, once, longAgo := inventory.Series{Type: inventory.Mutating, Name: "pods"}, inventory.Series{Type: inventory.Validating, Name: "once"}, inventory.Series{Type: inventory.Validating, Name: "long-ago"}
	if !week[pods] || !week[once] || week[longAgo] {
		t.Errorf("called in the last week: %v", week)
	}
}

// TestAlerts: of the project's alerts those that fire are read, each with its webhook and
// the time since when it is active.
func TestAlerts(t *testing.T) {
	const alert = `{alertname="WebhookBackendDown",component="webhook-auditor",severity="critical",type="validating",name="policy",`
	series := collected + "\tALERTS" + alert + "alertstate=\"firing\"} 1x30000\n\tALERTS_FOR_STATE" + strings.TrimSuffix(alert, ",") + "} 600x30000\n" +
		"\tALERTS{alertname=\"Pending\",component=\"webhook-auditor\",alertstate=\"pending\"} 1x30000\n\tALERTS_FOR_STATE{alertname=\"Pending\",component=\"webhook-auditor\"} 900x30000\n" +
		"\tALERTS{alertname=\"Other\",alertstate=\"firing\"} 1x30000\n\tALERTS_FOR_STATE{alertname=\"Other\"} 900x30000\n"
	o, errs := Prometheus{URL: prometheus(t, series, 24*time.Hour).URL, Range: 10 * time.Minute}.Observe(t.Context())
	want := inventory.Alert{Name: "WebhookBackendDown", Severity: "critical", Series: inventory.Series{Type: inventory.Validating, Name: "policy"}, Since: time.Unix(600, 0)}
	if len(errs) > 0 || len(o.Alerts) != 1 || o.Alerts[0] != want {
		t.Errorf("%v %v, want %v", errs, o, want)
	}
}

// TestShortMemory: a Prometheus that was started yesterday knows of no week.
func TestShortMemory(t *testing.T) {
	server := prometheus(t, collected, 24*time.Hour)
	o, errs := Prometheus{URL: server.URL, Range: 10 * time.Minute}.Observe(t.Context())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if o.CalledLastWeek != nil {
		t.Errorf("it covers a week: %v", o.CalledLastWeek)
	}
}

// TestSelector: one cluster of several is chosen.
func TestSelector(t *testing.T) {
	both := strings.ReplaceAll(collected, `instance="a"`, `cluster="x",instance="a"`)
	server := prometheus(t, both, 24*time.Hour)
	o, errs := Prometheus{URL: server.URL, Range: 10 * time.Minute, Selector: `cluster="x"`}.Observe(t.Context())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if got := o.Webhooks[inventory.Series{Type: inventory.Mutating, Name: "pods"}].CallsPerSecond; math.Abs(got-1) > 0.01 {
		t.Errorf("%g calls a second, want 1", got)
	}
}
