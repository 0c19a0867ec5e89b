package main

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster/client"
)

// logBuffer is a log that several goroutines write.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// lines are those that were written so far.
func (b *logBuffer) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Split(strings.TrimSpace(b.text.String()), "\n")
}

// TestIdleConnectionsAreCounted: 400 connections that end before their TLS
// handshake are one line, and one more with how many there were.
func TestIdleConnectionsAreCounted(t *testing.T) {
	var log logBuffer
	messages := exporter.NewLibraryMessages()
	library := newLibraryLog(slog.NewTextHandler(&log, nil), "net/http", messages)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(library, slog.LevelWarn)
	server.StartTLS()
	defer server.Close()
	const idle = 400
	for range idle {
		c := must.Get(net.Dial("tcp", server.Listener.Addr().String()))(t)
		c.Close()
	}
	for testutil.ToFloat64(messages.WithLabelValues("net/http")) < idle {
		if t.Context().Err() != nil {
			t.Fatal("not all messages are counted")
		}
	}
	if lines := log.lines(); len(lines) != 1 || !strings.Contains(lines[0], "TLS handshake error") || !strings.Contains(lines[0], "library=net/http") {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	library.summarize(kindOfMessage("http: TLS handshake error from 127.0.0.1:1: EOF"))
	if lines := log.lines(); len(lines) != 2 || !strings.Contains(lines[1], "more=399") {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
}

// TestKlogGoesThroughTheLog: what Kubernetes' libraries log is in the format of
// the log, and counted.
func TestKlogGoesThroughTheLog(t *testing.T) {
	var log logBuffer
	messages := exporter.NewLibraryMessages()
	klog.SetSlogLogger(slog.New(newLibraryLog(slog.NewTextHandler(&log, nil), "klog", messages)))
	defer klog.ClearLogger()
	for range 3 {
		klog.ErrorS(nil, "Failed to do it", "namespace", "policy")
	}
	if lines := log.lines(); len(lines) != 1 || !strings.Contains(lines[0], `level=ERROR msg="Failed to do it" library=klog namespace=policy`) {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	if n := testutil.ToFloat64(messages.WithLabelValues("klog")); n != 3 {
		t.Errorf("%v messages counted, want 3", n)
	}
}

// answered calls a function once the head of an answer has come.
type answered struct {
	http.RoundTripper
	then func()
}

func (a answered) RoundTrip(r *http.Request) (*http.Response, error) {
	defer a.then()
	return a.RoundTripper.RoundTrip(r)
}

// TestEndedCallsAreNotLogged: SIGTERM ends a call whose answer is being read, which
// client-go logs as an unexpected error. An answer that breaks off by itself is logged.
func TestEndedCallsAreNotLogged(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "2")
		if _, err := w.Write([]byte("{")); err == nil && r.URL.Path == "/ended" {
			_ = http.NewResponseController(w).Flush() // the client sees whether it works
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	for path, want := range map[string]string{"/ended": "", "/broken": "Unexpected error when reading response body"} {
		var log logBuffer
		messages := exporter.NewLibraryMessages()
		klog.SetSlogLogger(slog.New(newLibraryLog(slog.NewTextHandler(&log, nil), "klog", messages)))
		defer klog.ClearLogger()
		ctx, cancel := context.WithCancel(t.Context())
		config := &rest.Config{Host: server.URL, WrapTransport: func(next http.RoundTripper) http.RoundTripper {
			return answered{next, func() {
				if path == "/ended" {
					cancel()
				}
			}}
		}}
		core := must.Get(client.Group(config, nil, corev1.SchemeGroupVersion))(t)
		if err := core.Get().AbsPath(path).Do(ctx).Error(); err == nil || !strings.Contains(err.Error(), "reading response body") {
			t.Errorf("%s: %v, want that the answer cannot be read", path, err)
		}
		cancel()
		if got := strings.Join(log.lines(), "\n"); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: logged %q, want %q", path, got, want)
		}
	}
}
