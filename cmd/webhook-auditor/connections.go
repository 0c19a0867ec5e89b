package main

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// maxConnections is how many connections an address has: replicas of Prometheus, browsers
// and the kubelet need some dozens, and each takes about 50 kB.
const maxConnections = 512

// connections bounds the connections of a listener without making a new one wait: the
// probes of the kubelet come over new connections. Where the bound is reached, the oldest
// connection ends on which no request is answered, else the oldest of all. A request that
// waits for the review of its user is not answered yet.
type connections struct {
	net.Listener
	mu   sync.Mutex
	open list.List // of *clientConnection, the oldest first
}

// clientConnection is one of a listener, with the number of requests that are answered on it.
type clientConnection struct {
	net.Conn
	listener *connections
	element  *list.Element
	requests int
	once     sync.Once
}

// Accept takes the next connection.
func (l *connections) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &clientConnection{Conn: accepted, listener: l}
	if surplus := l.add(c); surplus != nil {
		_ = surplus.Close()
	}
	return c, nil
}

// add returns the connection that has to end, if any.
func (l *connections) add(c *clientConnection) *clientConnection {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.element = l.open.PushBack(c)
	if l.open.Len() <= maxConnections {
		return nil
	}
	for e := l.open.Front(); e != c.element; e = e.Next() {
		if other := e.Value.(*clientConnection); other.requests == 0 {
			return other
		}
	}
	return l.open.Front().Value.(*clientConnection)
}

// Close ends the connection, which makes room for another one.
func (c *clientConnection) Close() error {
	c.once.Do(func() {
		c.listener.mu.Lock()
		defer c.listener.mu.Unlock()
		c.listener.open.Remove(c.element)
	})
	return c.Conn.Close()
}

// count adds to the number of requests that are answered on the connection.
func (c *clientConnection) count(requests int) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.requests += requests
}

type connectionKey struct{}

// withConnection gives the requests of a connection the means to find it.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// countRequests counts the requests that are answered on each connection.
func countRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connectionKey{}).(*clientConnection); ok {
			c.count(1)
			defer c.count(-1)
		}
		next.ServeHTTP(w, r)
	})
}

// listen listens on all addresses, each with a bound on its connections.
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
		out = append(out, &connections{Listener: l})
	}
	return out, nil
}
