package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/klog/v2"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter"
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

// TestIdleConnectionsAreCounted: 400 connections that end before their TLS handshake are
// some lines.
func TestIdleConnectionsAreCounted(t *testing.T) {
	var log logBuffer
	messages := exporter.NewOwn(nil).LibraryMessages
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
	if lines := log.lines(); len(lines) > 2*libraryBurst || !strings.Contains(lines[0], "TLS handshake error") || !strings.Contains(lines[0], "library=net/http") {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
}

// TestKlogGoesThroughTheLog: what Kubernetes' libraries log is in the format of
// the log, and counted.
func TestKlogGoesThroughTheLog(t *testing.T) {
	var log logBuffer
	messages := exporter.NewOwn(nil).LibraryMessages
	klog.SetSlogLogger(slog.New(newLibraryLog(slog.NewTextHandler(&log, nil), "klog", messages)))
	defer klog.ClearLogger()
	for range 3 {
		klog.ErrorS(nil, "Failed to do it", "namespace", "policy")
	}
	if lines := log.lines(); len(lines) != 3 || !strings.Contains(lines[0], `level=ERROR msg="Failed to do it" library=klog namespace=policy`) {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	if n := testutil.ToFloat64(messages.WithLabelValues("klog")); n != 3 {
		t.Errorf("%v messages counted, want 3", n)
	}
}

// TestEndedCallsAreNotLogged: SIGTERM ends a call whose answer is being read, which
// client-go logs as an unexpected error.
func TestEndedCallsAreNotLogged(t *testing.T) {
	var log logBuffer
	library := slog.New(newLibraryLog(slog.NewTextHandler(&log, nil), "klog", exporter.NewOwn(nil).LibraryMessages))
	library.Error("Unexpected error when reading response body", "err", fmt.Errorf("reading: %w", context.Canceled))
	library.Error("Broken", "err", io.ErrUnexpectedEOF)
	if lines := log.lines(); len(lines) != 1 || !strings.Contains(lines[0], "Broken") {
		t.Errorf("logged %q", lines)
	}
}
