package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
)

// maxConnections is how many connections a server has: replicas of Prometheus, browsers
// and the kubelet need some dozens, and each takes about 50 kB.
const maxConnections = 512

// connections bounds the connections of a server without making a new one wait: the
// probes of the kubelet come over new connections. Where the bound is reached, the oldest
// connection ends on which no request is answered, else the oldest of all. A request that
// waits for the review of its user is not answered yet.
type connections struct {
	mu   sync.Mutex
	open []net.Conn // the oldest first
	// requests are those that are answered on each connection.
	requests map[net.Conn]int
}

// changed is the hook of a server for a connection that comes or goes.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		if len(c.open) >= maxConnections {
			i := max(0, slices.IndexFunc(c.open, func(o net.Conn) bool { return c.requests[o] == 0 }))
			end(c.open[i])
			c.open = slices.Delete(c.open, i, i+1)
		}
		c.open = append(c.open, conn)
	case http.StateClosed, http.StateHijacked:
		c.open = slices.DeleteFunc(c.open, func(o net.Conn) bool { return o == conn })
	}
}

// end waits for no client that does not read that it ends.
func end(c net.Conn) {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	_ = c.Close()
}

func (c *connections) count(conn net.Conn, requests int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requests[conn] += requests; c.requests[conn] == 0 {
		delete(c.requests, conn)
	}
}

type connectionKey struct{}

// bound has the server keep to the bound, and count the requests that the handler answers.
func (c *connections) bound(server *http.Server, next http.Handler) {
	server.ConnState = c.changed
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, conn)
	}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _ := r.Context().Value(connectionKey{}).(net.Conn)
		c.count(conn, 1)
		defer c.count(conn, -1)
		next.ServeHTTP(w, r)
	})
}

func listen(addresses []string) ([]net.Listener, error) {
	var out []net.Listener
	for _, address := range addresses {
		l, err := net.Listen("tcp", address)
		if err != nil {
			for _, opened := range out {
				_ = opened.Close()
			}
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}
