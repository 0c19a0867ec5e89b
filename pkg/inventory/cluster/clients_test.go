package cluster

import (
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// TestOneConnection: all watches share one connection, also those of references that
// are new.
func TestOneConnection(t *testing.T) {
	s := populated(t)
	var connections atomic.Int32
	encrypted := httptest.NewUnstartedServer(s)
	encrypted.EnableHTTP2 = true
	encrypted.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	encrypted.StartTLS()
	t.Cleanup(encrypted.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: encrypted.Certificate().Raw})
	clients := must.Get(NewClients(&rest.Config{Host: encrypted.URL, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}))(t)
	r := watchingWith(clients, s, Options{})
	r.await("everything", whole)
	s.put(service("more", "more"), endpointSlice("more", "more", true), validating("more", kubetest.Client("more", "more")))
	r.await("the new reference", webhooks(5))
	r.stop()
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}
