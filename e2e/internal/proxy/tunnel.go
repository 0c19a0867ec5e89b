package proxy

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
)

// Tunnel takes an API server's calls to webhooks to their backends, as konnectivity
// does for a hosted control plane. It speaks HTTP CONNECT.
type Tunnel struct {
	Socket string
	server *http.Server
	served chan struct{}

	mu   sync.Mutex
	lost func(address string) bool
	open map[net.Conn]string // connections to backends, with their addresses
}

// StartTunnel runs a tunnel at a socket: kube-apiserver panics on TCP without TLS.
// The caller must Close it.
func StartTunnel(socket string) (*Tunnel, error) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("opening the tunnel: %w", err)
	}
	t := &Tunnel{
		Socket: socket, served: make(chan struct{}),
		lost: func(string) bool { return false }, open: map[net.Conn]string{},
	}
	t.server = &http.Server{Handler: t, ErrorLog: log.New(io.Discard, "", 0)}
	go func() {
		defer close(t.served)
		_ = t.server.Serve(listener) // ends with ErrServerClosed
	}()
	return t, nil
}

// Lose has the tunnel reach no backend at these addresses from now on; the
// connections to them are closed.
func (t *Tunnel) Lose(lost func(address string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost = lost
	for backend, address := range t.open {
		if lost(address) {
			_ = backend.Close()
		}
	}
}

// Restore has the tunnel reach all backends.
func (t *Tunnel) Restore() { t.Lose(func(string) bool { return false }) }

// Close ends the tunnel and all that is open.
func (t *Tunnel) Close() error {
	t.Lose(func(string) bool { return true })
	err := t.server.Close()
	<-t.served
	return err
}

// ServeHTTP connects the client to the backend that it asks for.
func (t *Tunnel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	backend, err := t.dial(r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer t.forget(backend)
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // the client has gone
	}
	defer client.Close()
	if _, err := io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	join(client, backend)
}

// dial connects to a backend. As konnectivity does, it names agents as the cause
// where there is no way.
func (t *Tunnel) dial(address string) (net.Conn, error) {
	backend, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost(address) {
		_ = backend.Close()
		return nil, fmt.Errorf("no agent available for %s", address)
	}
	t.open[backend] = address
	return backend, nil
}

func (t *Tunnel) forget(backend net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, backend)
	_ = backend.Close()
}
