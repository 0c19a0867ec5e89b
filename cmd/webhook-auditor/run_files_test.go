package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// TestRunFrom: files are served as of their own time and read anew when they change; what
// can no longer be read stays. A must-gather says when it was recorded.
func TestRunFrom(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "must-gather.local")
	registered := must.Get(os.ReadFile("testdata/webhooks.yaml"))(t)
	file := filepath.Join(folder, "cluster-scoped-resources", "admissionregistration.k8s.io", "validatingwebhookconfigurations.yaml")
	must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must.Succeed(t, os.WriteFile(filepath.Join(folder, "timestamp"), []byte("2026-01-02 03:04:05.0 +0000 UTC\n"), 0o644))
	must.Succeed(t, os.WriteFile(file, registered, 0o644))
	o, d := &operatorFlags{source: source{access: &clusterFlags{}, input: &input{}, paths: []string{folder}}}, newTestDaemon(&bytes.Buffer{})
	o.web.maxSeries, d.clock = 1000, lastTaken
	first := o.readFiles(t.Context(), streams{err: io.Discard})
	must.Succeed(t, first.err)
	ctx, stop := context.WithCancel(t.Context())
	ticks, ended := make(chan time.Time), make(chan error)
	go func() { ended <- o.followFiles(ctx, d, first, ticks) }()
	serves := func(path, want string) {
		t.Helper()
		for range 3 { // a change counts from its second reading on, and a third tick waits for that
			ticks <- time.Now()
		}
		w := httptest.NewRecorder()
		o.web.handler(d).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if body := w.Body.String(); !strings.Contains(body, want) || strings.Contains(body, "ago<") || strings.Contains(body, "out of date") {
			t.Errorf("%s: no %q in\n%.2000s", path, want, body)
		}
	}
	serves("/", `recorded at <time datetime="2026-01-02T03:04:05Z"`)
	must.Succeed(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(registered), "example.com", "example.org")), 0o644))
	serves("/webhooks", "example.<wbr>org")
	must.Succeed(t, os.RemoveAll(folder))
	serves("/metrics", "example.org")
	stop()
	<-ended
}

// TestRunFromRefuses: what needs a cluster is refused beside files.
func TestRunFromRefuses(t *testing.T) {
	for _, flags := range []string{
		"--from=-", "--from=testdata --leader-elect --namespace=a", "--from=testdata --web.self-signed", "--from=testdata --probe=tls",
		"--from=testdata --observe=apiserver", "--from=testdata/none", "--server-version=v1.36", "--from=testdata --web.listen-address=:8443",
	} {
		var usage usageError
		if err := run(t.Context(), append([]string{"run"}, strings.Fields(flags)...), streams{err: io.Discard}); !errors.As(err, &usage) {
			t.Errorf("%s: %v", flags, err)
		}
	}
}
