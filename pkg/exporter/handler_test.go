package exporter

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report/reporttest"
)

// get returns the answer of a handler.
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

func TestReadyOnceThereIsAReport(t *testing.T) {
	var published atomic.Pointer[classify.Report]
	h := NewHandler(published.Load, Families)
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/metrics": 200} {
		if got, body := get(t, h, path); got != want {
			t.Errorf("%s before the first report: got %d, want %d: %s", path, got, want, body)
		}
	}
	published.Store(reporttest.Report())
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if got, body := get(t, h, path); got != http.StatusOK {
			t.Errorf("%s after the first report: got %d: %s", path, got, body)
		}
	}
}

func TestMetricsFollowTheReport(t *testing.T) {
	var published atomic.Pointer[classify.Report]
	published.Store(reporttest.Report())
	h := NewHandler(published.Load, Families, NewEvaluationDuration())
	const series = `webhook_auditor_finding{check="no-ready-endpoints",configuration="policy"`
	if _, body := get(t, h, "/metrics"); !strings.Contains(body, series) {
		t.Errorf("got:\n%s\nwant %s", body, series)
	}
	published.Store(reporttest.Healthy())
	_, body := get(t, h, "/metrics")
	if strings.Contains(body, series) {
		t.Errorf("a resolved finding stays: %s", series)
	}
	for _, want := range []string{"webhook_auditor_build_info{", "webhook_auditor_evaluation_duration_seconds_count 0", "go_goroutines ", "promhttp_metric_handler_errors_total{"} {
		if !strings.Contains(body, want) {
			t.Errorf("got:\n%s\nwant %s", body, want)
		}
	}
}

func TestOpenMetrics(t *testing.T) {
	_, body := get(t, NewHandler(current(reporttest.Report()), Families), "/metrics", "Accept", "application/openmetrics-text;version=1.0.0")
	if !strings.HasSuffix(body, "# EOF\n") || !strings.Contains(body, `webhook_auditor_finding{check="no-ready-endpoints"`) {
		t.Errorf("got:\n%s\nwant OpenMetrics", body)
	}
}

func TestMetricsByName(t *testing.T) {
	h := NewHandler(current(reporttest.Report()), Families, NewEvaluationDuration())
	for _, tc := range []struct{ names, want, not string }{
		{"name[]=webhook_auditor_finding", "webhook_auditor_finding{", "webhook_auditor_findings{"},
		{"name[]=webhook_auditor_findings&name[]=go_goroutines", "go_goroutines ", "webhook_auditor_finding{"},
		{"name[]=webhook_auditor_series_dropped", `{family="webhook_auditor_webhook_reach"} 0`, "webhook_auditor_finding{"},
		{"name[]=webhook_auditor_evaluation_duration_seconds", "webhook_auditor_evaluation_duration_seconds_count 0", "webhook_auditor_webhook"},
		{"name[]=unknown", "", "webhook_auditor"},
	} {
		status, body := get(t, h, "/metrics?"+tc.names)
		if status != http.StatusOK || !strings.Contains(body, tc.want) || strings.Contains(body, tc.not) {
			t.Errorf("%s: got %d\n%s\nwant %q and no %q", tc.names, status, body, tc.want, tc.not)
		}
	}
}

func TestOnlyWhatIsServed(t *testing.T) {
	h := NewHandler(current(reporttest.Report()), Families)
	if status, _ := get(t, h, "/nothing"); status != http.StatusNotFound {
		t.Errorf("unknown path: got %d, want 404", status)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/metrics", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: got %d, want 405", w.Code)
	}
}
