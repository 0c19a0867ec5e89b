package access

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
)

// addressed is a connection from an address.
type addressed struct {
	net.Conn
	from   string
	closed bool
}

func (c *addressed) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(c.from), Port: 1}
}

func (c *addressed) Close() error { c.closed = true; return nil }

// limited is a server of which connections are opened by hand.
type limited struct{ *http.Server }

func newLimited() limited {
	s := limited{&http.Server{}}
	LimitConnections(s.Server)
	return s
}

// open opens a connection and returns it with a request on it.
func (s limited) open(from string) (*addressed, *http.Request) {
	c := &addressed{from: from}
	r, _ := http.NewRequestWithContext(s.ConnContext(context.Background(), c), http.MethodGet, "/metrics", nil)
	return c, r
}

// TestConnectionsAreLimited: a flood costs connections of the flood, from one address or
// from many, and no others.
func TestConnectionsAreLimited(t *testing.T) {
	for name, from := range map[string]func(i int) string{
		"one address":    func(int) string { return "10.0.0.1" },
		"four addresses": func(i int) string { return fmt.Sprintf("10.0.0.%d", i%4) },
		"many addresses": func(i int) string { return fmt.Sprintf("10.0.%d.%d", i/250, i%250) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newLimited()
			scraper, request := s.open("10.1.0.1")
			admit(request)
			admit(request)
			var flood []*addressed
			flooded := func(n int) {
				for i := range n {
					c, _ := s.open(from(i))
					flood = append(flood, c)
				}
			}
			flooded(2000)
			newcomer, request := s.open("10.2.0.1")
			flooded(maxConnections / 2)
			if newcomer.closed {
				t.Error("a newcomer's connection is closed before its request is read")
			}
			admit(request)
			flooded(2000)
			open := 0
			for _, c := range flood {
				if !c.closed {
					open++
				}
			}
			if scraper.closed || newcomer.closed || open != maxConnections-2 {
				t.Errorf("the scraper's connection is closed: %v, the newcomer's: %v; %d others are open, want %d", scraper.closed, newcomer.closed, open, maxConnections-2)
			}
			for _, c := range append(flood, scraper, newcomer) {
				s.ConnState(c, http.StateClosed)
			}
			owner := request.Context().Value(connectionKey{}).(*connection).owner
			if len(owner.open) != 0 || len(owner.from) != 0 {
				t.Errorf("%d connections and %d addresses are left", len(owner.open), len(owner.from))
			}
		})
	}
}

// TestAdmittedConnectionsAreEnough: where users were admitted on all of them, a new
// one is closed.
func TestAdmittedConnectionsAreEnough(t *testing.T) {
	s := newLimited()
	for range maxConnections {
		_, request := s.open("10.1.0.1")
		admit(request)
	}
	if c, _ := s.open("10.2.0.1"); !c.closed {
		t.Error("one more is open")
	}
}
