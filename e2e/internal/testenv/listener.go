package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// Listen puts a listener behind the Service of a backend.
func Listen(t testing.TB, b webhook.Backend) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	redirect(t, b, listener.Addr())
	return listener
}

// RefuseConnections makes the endpoint of a backend a port without a listener, until
// the end of the test. A client holds the port: one that is merely closed again is soon
// another server's.
func RefuseConnections(t testing.TB, b webhook.Backend) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	client, err := net.Dial("tcp", listener.Addr().String())
	Must(t, err)
	t.Cleanup(func() {
		Must(t, client.Close())
		Must(t, listener.Close())
	})
	redirect(t, b, client.LocalAddr())
}

// ServingCertificate is the self-signed certificate of a server.
type ServingCertificate struct {
	DNSName string        // "" for none, as a mesh's sidecar has it
	Left    time.Duration // until it expires
}

// Serve puts a server with the certificate behind the Service of a backend, until
// the end of the test, and returns the CA bundle that verifies it.
func (c ServingCertificate) Serve(t testing.TB, b webhook.Backend, server *http.Server) []byte {
	t.Helper()
	certificate := c.sign(t)
	if server.TLSConfig == nil {
		server.TLSConfig = &tls.Config{}
	}
	server.TLSConfig.Certificates = []tls.Certificate{certificate}
	server.ErrorLog = log.New(io.Discard, "", 0) // the API server's refusals
	listener := Listen(t, b)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ServeTLS(listener, "", "")
	}()
	t.Cleanup(func() {
		Must(t, server.Close())
		<-done
	})
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
}

func (c ServingCertificate) sign(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Must(t, err)
	end := time.Now().Add(c.Left)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(end.UnixNano()),
		NotBefore:    end.AddDate(-1, 0, 0),
		NotAfter:     end,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if c.DNSName != "" {
		template.DNSNames = []string{c.DNSName}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	Must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// redirect makes the endpoint of a backend listen elsewhere.
func redirect(t testing.TB, b webhook.Backend, address net.Addr) {
	t.Helper()
	slices := b.Client.DiscoveryV1().EndpointSlices(b.Namespace)
	slice, err := slices.Get(t.Context(), b.Name, metav1.GetOptions{})
	Must(t, err)
	slice.Ports[0].Port = new(int32(address.(*net.TCPAddr).Port))
	_, err = slices.Update(t.Context(), slice, metav1.UpdateOptions{})
	Must(t, err)
	Must(t, b.Publish(t.Context(), slice))
}
