package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/access"
)

// TestProbesAmongConnections: whatever connections clients hold, from the address of the
// kubelet too, a probe is answered.
func TestProbesAmongConnections(t *testing.T) {
	insecure := &tls.Config{InsecureSkipVerify: true}
	// sent returns a client that connects and sends so much of a request.
	sent := func(text string, secured bool) func(address string) (net.Conn, error) {
		return func(address string) (net.Conn, error) {
			c, err := net.Dial("tcp", address)
			if err == nil && secured {
				c = tls.Client(c, insecure)
			}
			if err == nil && text != "" {
				_, err = io.WriteString(c, text)
			}
			return c, err
		}
	}
	const whole = " HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for name, tt := range map[string]struct {
		hold    func(address string) (net.Conn, error)
		clients int
		secured bool
	}{
		"idle, plain":                     {sent("", false), 2000, false},
		"idle, TLS":                       {sent("", false), 2000, true},
		"half of a TLS handshake":         {sent("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", false), 2000, true},
		"no TLS at all":                   {sent("GET /metrics"+whole, false), 2000, true},
		"slow headers":                    {sent("GET /metrics HTTP/1.1\r\nHost: ", false), 2000, false},
		"slow headers, TLS":               {sent("GET /metrics HTTP/1.1\r\nHost: ", true), 600, true},
		"kept alive":                      {sent("GET /healthz"+whole, false), 2000, false},
		"slow bodies":                     {sent("POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n", false), 600, false},
		"answers that are not read":       {sent("GET /large"+whole, false), 600, false},
		"requests that wait, as reviews":  {sent("GET /waiting"+whole, false), 600, false},
		"requests that wait, HTTPS alone": {sent("GET /waiting"+whole, true), 600, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := serveProbes(t, tt.secured)
			for range tt.clients {
				if c, err := tt.hold(address); err == nil { // else it has ended already
					defer c.Close()
				}
			}
			scheme := "http"
			if tt.secured {
				scheme = "https"
			}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: insecure, DisableKeepAlives: true}, Timeout: time.Minute}
			for range 5 {
				response := must.Get(client.Get(fmt.Sprintf("%s://%s/healthz", scheme, address)))(t)
				must.Succeed(t, response.Body.Close())
				if response.StatusCode != http.StatusOK {
					t.Errorf("%d", response.StatusCode)
				}
			}
		})
	}
}

// serveProbes serves a probe and what takes long, as serve does, and returns the address.
func serveProbes(t *testing.T, secured bool) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthy)
	mux.HandleFunc("GET /waiting", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	large := make([]byte, 16<<20)
	mux.HandleFunc("GET /large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(large) })
	mux.HandleFunc("POST /slow", func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body) })
	server := newServer(mux)
	server.ErrorLog = log.New(io.Discard, "", 0) // of connections that ended
	listener := must.Get(listen([]string{"127.0.0.1:0"}))(t)[0]
	serve := func() error { return server.Serve(listener) }
	if secured {
		certificate := must.Get(access.SelfSigned())(t)
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*certificate}}
		serve = func() error { return server.ServeTLS(listener, "", "") }
	}
	ended := make(chan error, 1)
	go func() { ended <- serve() }()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return listener.Addr().String()
}
