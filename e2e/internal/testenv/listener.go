package testenv

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/ca"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// Listen puts a listener behind the Service of a backend.
func Listen(t testing.TB, b webhook.Backend) net.Listener {
	t.Helper()
	listener := Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	redirect(t, b, listener.Addr())
	return listener
}

// RefuseConnections makes the endpoint of a backend a port without a listener, until
// the end of the test. A client holds the port: one that is merely closed again is soon
// another server's.
func RefuseConnections(t testing.TB, b webhook.Backend) {
	t.Helper()
	listener := Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	client := Get(net.Dial("tcp", listener.Addr().String()))(t)
	t.Cleanup(func() {
		Must(t, client.Close())
		Must(t, listener.Close())
	})
	redirect(t, b, client.LocalAddr())
}

// ServingCertificate is the certificate of a server, by an authority of its own.
type ServingCertificate struct {
	DNSName string        // "" for none, as a mesh's sidecar has it
	Left    time.Duration // until it expires
}

// Serve puts a server with the certificate behind the Service of a backend, until
// the end of the test, and returns the CA bundle that verifies it.
func (c ServingCertificate) Serve(t testing.TB, b webhook.Backend, server *http.Server) []byte {
	t.Helper()
	authority := Get(ca.New("self"))(t)
	var names []string
	if c.DNSName != "" {
		names = []string{c.DNSName}
	}
	pair := Get(authority.ServingUntil(time.Now().Add(c.Left), names...))(t)
	certificate := Get(tls.X509KeyPair(pair.Certificate, pair.Key))(t)
	if server.TLSConfig == nil {
		server.TLSConfig = &tls.Config{}
	}
	server.TLSConfig.Certificates = []tls.Certificate{certificate}
	server.ErrorLog = log.New(io.Discard, "", 0) // the API server's refusals
	listener := Listen(t, b)
	go func() { _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { Must(t, server.Close()) })
	return authority.Bundle
}

// redirect makes the endpoint of a backend listen elsewhere.
func redirect(t testing.TB, b webhook.Backend, address net.Addr) {
	t.Helper()
	port := new(int32(address.(*net.TCPAddr).Port))
	Must(t, b.Change(t.Context(), func(slice *discoveryv1.EndpointSlice) { slice.Ports[0].Port = port }))
}
