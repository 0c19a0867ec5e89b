package main

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// TestDemo: the report comes at once, and the page until the program is stopped.
func TestDemo(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"demo"}, streams{in: strings.NewReader(""), out: writer, err: io.Discard})
		writer.Close()
	}()
	var out strings.Builder
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/`)
	for buffer := make([]byte, 4096); !address.MatchString(out.String()); {
		n, err := reader.Read(buffer)
		out.Write(buffer[:n])
		if err != nil {
			t.Fatalf("%v after:\n%s", err, out.String())
		}
	}
	go io.Copy(io.Discard, reader)
	for _, want := range []string{"backups.storage.example.com", "configmaps.legacy.example.com", "chain-outlasts-request"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %s:\n%s", want, out.String())
		}
	}
	answer := must.Get(http.Get(address.FindString(out.String())))(t)
	defer answer.Body.Close()
	body := must.Get(io.ReadAll(answer.Body))(t)
	if answer.StatusCode != http.StatusOK || !strings.Contains(string(body), "backups.storage.example.com") || !strings.Contains(string(body), "Kubernetes v1.37.1") {
		t.Errorf("the page answers %s:\n%.500s", answer.Status, body)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ends with %v", err)
	}
}

// TestDemoOnce: with --once it ends after the report, without an error.
func TestDemoOnce(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"demo", "--once"}, streams{in: strings.NewReader(""), out: &out, err: io.Discard}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "http://") || !strings.Contains(out.String(), "19 webhooks") {
		t.Errorf("it prints:\n%s", out.String())
	}
}
