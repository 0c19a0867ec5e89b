// Package proxy stands between a client and an API server and breaks what
// passes, as load balancers and failing servers do.
package proxy

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"

	"k8s.io/client-go/rest"
)

// Fault answers a request in the API server's place, and reports whether it
// did. It may also only wait.
type Fault func(w http.ResponseWriter, r *http.Request) bool

// Proxy forwards to an API server with the credentials of its own. Clients
// speak plain HTTP to it, on loopback.
type Proxy struct {
	URL     string
	server  *http.Server
	forward http.Handler

	mu    sync.Mutex
	fault Fault
	// era ends with each change of the fault, and with it what is open.
	era context.Context
	end context.CancelFunc
}

// Start runs a proxy to the API server of the config. The caller must
// Close it.
func Start(config *rest.Config) (*Proxy, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the host: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing to forward: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening the proxy: %w", err)
	}
	return serve(listener, &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches are streams
		ErrorLog:      silent,
	}), nil
}

var silent = log.New(io.Discard, "", 0) // broken connections are part of the tests

func serve(listener net.Listener, forward http.Handler) *Proxy {
	p := &Proxy{URL: "http://" + listener.Addr().String(), forward: forward}
	p.era, p.end = context.WithCancel(context.Background())
	p.server = &http.Server{Handler: p, ErrorLog: silent}
	go func() { _ = p.server.Serve(listener) }() // ends with ErrServerClosed
	return p
}

// Break has the fault see each request from now on; nil heals. What is open,
// as watches are, is closed.
func (p *Proxy) Break(fault Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
	p.fault = fault
	p.era, p.end = context.WithCancel(context.Background())
}

// ServeHTTP forwards a request, unless the fault answers it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	fault, era := p.fault, p.era
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(era, cancel)()
	r = r.WithContext(ctx)
	if fault != nil && fault(w, r) {
		return
	}
	p.forward.ServeHTTP(w, r)
}

// Close ends the proxy and all that is open.
func (p *Proxy) Close() error {
	p.end()
	return p.server.Close()
}

// Fail answers every request with a status of the API server's form.
func Fail(code int, reason string) Fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		// Clients wait so long between their attempts.
		if code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(code)
		fmt.Fprint(w, status(code, reason))
		return true
	}
}

// Expire ends every watch that continues a list with 410 Gone, as an API server
// does that no longer knows the resource version. Lists pass.
func Expire(w http.ResponseWriter, r *http.Request) bool {
	q := r.URL.Query()
	if q.Get("watch") == "" || q.Get("resourceVersion") == "" {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"type":"ERROR","object":%s}`+"\n", status(http.StatusGone, "Expired"))
	return true
}

func status(code int, reason string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"broken by the test","reason":%q,"code":%d}`, reason, code)
}
