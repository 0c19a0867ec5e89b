package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
)

// Tunnel takes an API server's calls to webhooks to their backends, as konnectivity
// does for a hosted control plane. It speaks HTTP CONNECT.
type Tunnel struct{ *Proxy }

// StartTunnel runs a tunnel at a socket: kube-apiserver panics on TCP without TLS.
// The caller must Close it.
func StartTunnel(socket string) (Tunnel, error) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return Tunnel{}, fmt.Errorf("opening the tunnel: %w", err)
	}
	return Tunnel{serve(listener, http.HandlerFunc(connect))}, nil
}

// Lose has the tunnel reach no backend from now on, until Restore; what is open is closed.
// As konnectivity does, it names agents as the cause.
func (t Tunnel) Lose() {
	t.Break(func(w http.ResponseWriter, r *http.Request) bool {
		http.Error(w, "no agent available for "+r.Host, http.StatusServiceUnavailable)
		return true
	})
}

// Restore has the tunnel reach all backends.
func (t Tunnel) Restore() { t.Break(nil) }

// connect connects the client to the backend that it asks for.
func connect(w http.ResponseWriter, r *http.Request) {
	backend, err := net.Dial("tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer backend.Close()
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // the client has gone
	}
	defer client.Close()
	defer context.AfterFunc(r.Context(), func() { _ = backend.Close() })()
	if _, err := io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	join(client, backend)
}
