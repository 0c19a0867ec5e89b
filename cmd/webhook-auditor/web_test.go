package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// TestWebFlags: nothing is served in the clear by accident.
func TestWebFlags(t *testing.T) {
	for line, want := range map[string]string{
		"":                                    "must be a loopback address for plain HTTP",
		"--web.listen-address=127.0.0.1:8443": "",
		"--web.listen-address=[::1]:8443,localhost:1":   "",
		"--web.listen-address=127.0.0.1:8443,0.0.0.0:1": "must be a loopback address for plain HTTP",
		"--web.allow-http":                                   "",
		"--web.allow-http --web.max-series=0":                "--web.max-series: must be at least 1, not 0",
		"--web.self-signed":                                  "",
		"--web.tls-cert-file=c":                              "must all be set",
		"--web.tls-cert-file=c --web.tls-private-key-file=k": "",
		"--web.tls-cert-file=c --web.tls-private-key-file=k --web.self-signed": "",
	} {
		var f webFlags
		flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
		f.register(flags)
		must.Succeed(t, flags.Parse(strings.Fields(line)))
		c := runCommand(streams{})
		must.Succeed(t, c.ParseFlags(strings.Fields(line)))
		err := errors.Join(c.ValidateFlagGroups(), f.check())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}

// TestOwnHosts: a page in a browser that points a name of its own at 127.0.0.1 reads
// nothing.
func TestOwnHosts(t *testing.T) {
	f := webFlags{hosts: []string{"auditor.example.com"}}
	server := httptest.NewServer(f.ownHosts(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "whole") })))
	defer server.Close()
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:8443": 200, "127.0.0.1:1": 200, "[::1]:8443": 200, "10.0.0.1": 200, "auditor.example.com:8443": 200,
		"evil.example.com": 403, "evil.example.com:8443": 403, "localhost.evil.example.com": 403, "127.0.0.1.evil.example.com": 403, "": 200,
	} {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil))(t)
		r.Host = host
		response := must.Get(http.DefaultClient.Do(r))(t)
		must.Succeed(t, response.Body.Close())
		if response.StatusCode != want {
			t.Errorf("Host %q: %d, want %d", host, response.StatusCode, want)
		}
	}
}

// TestScrapesAfterSIGTERM: connections are taken for as long as it lingers.
func TestScrapesAfterSIGTERM(t *testing.T) {
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "whole") })}
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serveUntil(ctx, server, time.Second, func() error { return server.Serve(listener) }) }()
	cancel()
	expect.Equal(t, "whole", fetch("http://"+listener.Addr().String())) // a scrape after SIGTERM
	must.Succeed(t, <-ended)
}

// TestScrapesInFlightEnd: SIGTERM closes the listener, and a request that is being
// answered is answered.
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
	go func() { ended <- serveUntil(ctx, server, 0, func() error { return server.Serve(listener) }) }()
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
	expect.Equal(t, "whole", <-scraped) // the scrape in flight
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

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
