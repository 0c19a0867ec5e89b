package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// TestScrape: metrics are current, or the error says why they are not and what
// to do.
func TestScrape(t *testing.T) {
	current := func(age time.Duration) string {
		return fmt.Sprintf("# TYPE webhook_auditor_snapshot_timestamp_seconds gauge\nwebhook_auditor_snapshot_timestamp_seconds %d\nwebhook_auditor_webhook_info{name=\"a\"} 1\n", time.Now().Add(-age).Unix())
	}
	for name, test := range map[string]struct {
		status         int
		body, out, err string
	}{
		"current":      {200, current(0), "1 webhooks; snapshot", ""},
		"stale":        {200, current(time.Hour), "snapshot 1h", "not current"},
		"of another":   {200, "up 1\n", "", "must be the URL of an auditor"},
		"unauthorized": {401, "", "", "--token-file"},
		"forbidden":    {403, "", "", "webhook-auditor-metrics-reader"},
		"redirected":   {302, "", "", "302"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer secret" {
					test.status = http.StatusUnauthorized
				}
				if test.status == http.StatusFound {
					w.Header().Set("Location", "https://example.invalid/")
				}
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			}))
			defer server.Close()
			token := must.File(t, "token", "secret")
			var out, stderr bytes.Buffer
			code := exit(run(t.Context(), []string{"scrape", server.URL, "--token-file", token, "--insecure-skip-tls-verify"}, streams{out: &out, err: &stderr}), &stderr)
			if code != min(len(test.err), exitError) || !strings.Contains(out.String(), test.out) || !strings.Contains(stderr.String(), test.err) {
				t.Errorf("exit code %d, output %q, error %q", code, &out, &stderr)
			}
		})
	}
}

// TestScrapeVerifies: without the flag, a certificate that nothing signed is
// refused before the token is sent.
func TestScrapeVerifies(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }))
	defer server.Close()
	var stderr bytes.Buffer
	if code := exit(run(t.Context(), []string{"scrape", server.URL}, streams{out: &stderr, err: &stderr}), &stderr); code != exitError || !strings.Contains(stderr.String(), "certificate") {
		t.Errorf("exit code %d, %s", code, &stderr)
	}
}
