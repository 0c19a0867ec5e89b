package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// TestWebFlags: nothing is served in the clear by accident, and no user gives
// two certificates.
func TestWebFlags(t *testing.T) {
	for line, want := range map[string]string{
		"":                                    "must be a loopback address for plain HTTP",
		"--web.listen-address=127.0.0.1:8443": "",
		"--web.listen-address=[::1]:8443,localhost:1":   "",
		"--web.listen-address=127.0.0.1:8443,0.0.0.0:1": "must be a loopback address for plain HTTP",
		"--web.allow-http":                                                              "",
		"--web.allow-http --web.max-series=0":                                           "--web.max-series: must be at least 1, not 0",
		"--web.self-signed":                                                             "",
		"--web.config.file=web.yaml":                                                    "",
		"--web.self-signed --web.config.file=web.yaml":                                  "--web.self-signed",
		"--web.tls-cert-file=c":                                                         "must be given together",
		"--web.tls-cert-file=c --web.tls-private-key-file=k":                            "",
		"--web.tls-cert-file=c --web.tls-private-key-file=k --web.self-signed":          "",
		"--web.tls-cert-file=c --web.tls-private-key-file=k --web.config.file=web.yaml": "--web.config.file",
	} {
		var f webFlags
		flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
		f.register(flags)
		must.Succeed(t, flags.Parse(strings.Fields(line)))
		err := f.check()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}

// TestScrapesInFlightEnd: SIGTERM closes the listener at once, and a request
// that is being answered is answered.
func TestScrapesInFlightEnd(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-finish
		_, _ = io.WriteString(w, "whole")
	})}
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serveUntil(ctx, server, func() error { return server.Serve(listener) }) }()
	scraped := make(chan string, 1)
	go func() { scraped <- fetch("http://" + listener.Addr().String()) }()
	<-begun
	cancel()
	for {
		c, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			break // no more connections are taken: the shutdown has begun
		}
		c.Close()
	}
	close(finish)
	if got := <-scraped; got != "whole" {
		t.Errorf("the scrape in flight got %q", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// fetch returns the body of a URL, or the error.
func fetch(url string) string {
	response, err := http.Get(url)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}
