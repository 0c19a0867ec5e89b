package exporter

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
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
	for _, want := range []string{"webhook_auditor_build_info{", "webhook_auditor_evaluation_duration_seconds_count 0", "go_goroutines "} {
		if !strings.Contains(body, want) {
			t.Errorf("got:\n%s\nwant %s", body, want)
		}
	}
}
