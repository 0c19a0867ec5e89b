package proxy

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
)

// Balancer has connections to one address reach several servers in turn, as the
// load balancer of a control plane does.
type Balancer struct {
	Address  string
	listener net.Listener
	served   sync.WaitGroup
	// passing is locked while nothing passes.
	passing sync.RWMutex

	mu        sync.Mutex
	addresses []string
	open      []net.Conn
}

// StartBalancer runs a balancer in front of these addresses, or paths of sockets. The
// caller must Close it.
func StartBalancer(addresses ...string) (*Balancer, error) {
	return balance("tcp", "127.0.0.1:0", addresses)
}

// StartRelay runs a balancer between a socket and an address or another socket.
func StartRelay(socket, target string) (*Balancer, error) {
	return balance("unix", socket, []string{target})
}

func balance(network, address string, addresses []string) (*Balancer, error) {
	listener, err := net.Listen(network, address)
	if err != nil {
		return nil, fmt.Errorf("opening the balancer: %w", err)
	}
	b := &Balancer{Address: listener.Addr().String(), listener: listener, addresses: addresses}
	b.served.Go(func() {
		for n := 0; ; n++ {
			client, err := listener.Accept()
			if err != nil {
				return // it is closed
			}
			b.served.Go(func() { b.forward(client, n) })
		}
	})
	return b, nil
}

// Use has new connections reach these addresses, as a load balancer does that finds
// the others unhealthy.
func (b *Balancer) Use(addresses ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addresses = addresses
}

// Hold keeps what is sent from passing, with all connections open, until Release.
func (b *Balancer) Hold() { b.passing.Lock() }

// Release ends Hold.
func (b *Balancer) Release() { b.passing.Unlock() }

func (b *Balancer) forward(client net.Conn, n int) {
	b.mu.Lock()
	address := b.addresses[n%len(b.addresses)]
	b.mu.Unlock()
	network := "tcp"
	if filepath.IsAbs(address) {
		network = "unix"
	}
	server, err := net.Dial(network, address)
	if err != nil {
		_ = client.Close()
		return
	}
	b.mu.Lock()
	b.open = append(b.open, client, server)
	b.mu.Unlock()
	join(gated{client, b}, gated{server, b})
}

// gated is a connection to which nothing is sent while the balancer holds it.
type gated struct {
	net.Conn
	balancer *Balancer
}

// Write implements io.Writer.
func (g gated) Write(p []byte) (int, error) {
	g.balancer.passing.RLock()
	defer g.balancer.passing.RUnlock()
	return g.Conn.Write(p)
}

// join passes on what either end sends, until one closes its connection.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	pass := func(destination, source net.Conn) {
		_, _ = io.Copy(destination, source)
		_ = destination.Close()
	}
	both.Go(func() { pass(a, b) })
	both.Go(func() { pass(b, a) })
	both.Wait()
}

// Close ends the balancer and all that is open.
func (b *Balancer) Close() error {
	err := b.listener.Close()
	b.mu.Lock()
	for _, c := range b.open {
		_ = c.Close()
	}
	b.mu.Unlock()
	b.served.Wait()
	return err
}
