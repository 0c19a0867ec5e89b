package proxy

import (
	"fmt"
	"io"
	"net"
	"sync"
)

// Balancer has connections to one address reach several API servers in turn, as
// the load balancer of a control plane does.
type Balancer struct {
	Address  string
	listener net.Listener
	served   sync.WaitGroup

	mu   sync.Mutex
	open []net.Conn
}

// StartBalancer runs a balancer in front of these addresses. The caller must Close
// it.
func StartBalancer(addresses ...string) (*Balancer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening the balancer: %w", err)
	}
	b := &Balancer{Address: listener.Addr().String(), listener: listener}
	b.served.Go(func() {
		for n := 0; ; n++ {
			client, err := listener.Accept()
			if err != nil {
				return // it is closed
			}
			address := addresses[n%len(addresses)]
			b.served.Go(func() { b.forward(client, address) })
		}
	})
	return b, nil
}

func (b *Balancer) forward(client net.Conn, address string) {
	server, err := net.Dial("tcp", address)
	if err != nil {
		_ = client.Close()
		return
	}
	b.mu.Lock()
	b.open = append(b.open, client, server)
	b.mu.Unlock()
	join(client, server)
}

// join passes on what either end sends, until one closes its connection.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.Close()
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
