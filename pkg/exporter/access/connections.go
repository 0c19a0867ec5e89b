package access

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"sync"
)

// maxConnections is how many connections a server has: replicas of Prometheus, browsers
// and the kubelet need some dozens, and each takes about 50 kB.
const maxConnections = 512

// LimitConnections bounds the connections of the server. Beyond that, one is closed of
// the address with the most connections from which no user was admitted: so a client
// that opens thousands shuts out no other, least of all one that scrapes.
func LimitConnections(server *http.Server) {
	open := &connections{open: map[net.Conn]*connection{}, from: map[string]int{}}
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, open.add(c))
	}
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateClosed || state == http.StateHijacked {
			open.remove(c)
		}
	}
}

// connectionKey is the key of the connection in the context of a request.
type connectionKey struct{}

type connection struct {
	net.Conn
	from string
	// opened counts up from one connection to the next.
	opened int
	owner  *connections
	// admitted is guarded by the owner.
	admitted bool
}

// connections are those that are open.
type connections struct {
	mu   sync.Mutex
	open map[net.Conn]*connection
	// from counts those of an address from which no user was admitted.
	from   map[string]int
	opened int
}

func (s *connections) add(c net.Conn) *connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	added := &connection{Conn: c, from: host(c.RemoteAddr().String()), opened: s.opened, owner: s}
	s.open[c] = added
	s.from[added.from]++
	if len(s.open) > maxConnections {
		s.closeOne()
	}
	return added
}

// closeOne closes the oldest connection of the address with the most.
func (s *connections) closeOne() {
	var chosen *connection
	for _, c := range s.open {
		if !c.admitted && (chosen == nil || cmp.Or(cmp.Compare(s.from[c.from], s.from[chosen.from]), cmp.Compare(chosen.opened, c.opened)) > 0) {
			chosen = c
		}
	}
	if chosen == nil {
		return
	}
	s.forget(chosen)
	conn := chosen.Conn
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secured.NetConn() // to end TLS first would wait for the client
	}
	conn.Close() // of an error there is nothing to do: the connection is given up
}

// uncount no longer counts the connection among those of its address.
func (s *connections) uncount(c *connection) {
	if s.from[c.from]--; s.from[c.from] == 0 {
		delete(s.from, c.from)
	}
}

// forget takes the connection out of those that are open.
func (s *connections) forget(c *connection) {
	delete(s.open, c.Conn)
	if !c.admitted {
		s.uncount(c)
	}
}

func (s *connections) remove(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if gone := s.open[c]; gone != nil {
		s.forget(gone)
	}
}

// admit notes that a user was admitted on the connection of the request: it is not
// closed because of others.
func admit(r *http.Request) {
	c, ok := r.Context().Value(connectionKey{}).(*connection)
	if !ok {
		return
	}
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	if c.owner.open[c.Conn] == c && !c.admitted {
		c.admitted = true
		c.owner.uncount(c)
	}
}
