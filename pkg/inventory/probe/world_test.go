package probe

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/certtest"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

type authority struct{ certtest.Authority }

func newAuthority(t *testing.T) authority {
	return authority{certtest.NewAuthority(t, time.Now().AddDate(1, 0, 0))}
}

// hook is the name of the Service of all tests, as the API server wants it in
// certificates.
const hook = "hook.policy.svc"

// healthy is a good certificate of the Service.
func (a authority) healthy(t *testing.T) *tls.Config {
	return a.config(t, hook, -time.Hour, time.Hour)
}

func (a authority) config(t *testing.T, name string, start, end time.Duration) *tls.Config {
	t.Helper()
	now := time.Now()
	return &tls.Config{Certificates: []tls.Certificate{a.Sign(t, &x509.Certificate{
		DNSNames: []string{name}, NotBefore: now.Add(start), NotAfter: now.Add(end), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})}}
}

// server is a real backend, and what it shows.
type server struct {
	address string
	mu      sync.Mutex
	log     bytes.Buffer
	calls   int
	closed  chan struct{}
}

func (s *server) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(b)
}

// serve runs an HTTPS server until the end of the test.
func serve(t *testing.T, config *tls.Config) *server {
	t.Helper()
	s := &server{closed: make(chan struct{}, 100)}
	listener := listen(t)
	s.address = listener.Addr().String()
	web := &http.Server{
		TLSConfig: config,
		ErrorLog:  log.New(s, "", 0),
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.calls++
		}),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				s.closed <- struct{}{}
			}
		},
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = web.ServeTLS(listener, "", "")
	}()
	t.Cleanup(func() {
		web.Close()
		<-done
	})
	return s
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	return listener
}

// answering accepts connections and does with each what it is given.
func answering(t *testing.T, do func(net.Conn)) string {
	t.Helper()
	listener := listen(t)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				defer conn.Close()
				do(conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		group.Wait()
	})
	return listener.Addr().String()
}

// refusing is an address without a listener, held by a client: a port that is merely
// closed again is soon another server's.
func refusing(t *testing.T) string {
	t.Helper()
	client := must.Get(net.Dial("tcp", listen(t).Addr().String()))(t)
	t.Cleanup(func() { client.Close() })
	return client.LocalAddr().String()
}

// objects are webhooks that call the Service, which has the endpoints.
func objects(t *testing.T, bundles [][]byte, addresses ...string) inventory.Objects {
	t.Helper()
	o := inventory.Objects{
		Cluster:  inventory.Cluster{Routing: inventory.RoutingEndpoints, EndpointsKnown: inventory.Coverage{All: true}},
		Services: []*corev1.Service{kubetest.Service("policy", "hook")},
	}
	configuration := kubetest.Validating("policy")
	for i, bundle := range bundles {
		configuration.Webhooks = append(configuration.Webhooks, admissionv1.ValidatingWebhook{
			Name:         webhookName(i),
			ClientConfig: admissionv1.WebhookClientConfig{CABundle: bundle, Service: &admissionv1.ServiceReference{Namespace: "policy", Name: "hook"}},
		})
	}
	o.Validating = append(o.Validating, configuration)
	for _, address := range addresses {
		o.EndpointSlices = append(o.EndpointSlices, slice(t, address))
	}
	return o
}

func webhookName(i int) string { return "w" + strconv.Itoa(i) + ".example.com" }

func ref(i int) inventory.Ref {
	return inventory.Ref{Type: inventory.Validating, Configuration: "policy", Name: webhookName(i)}
}

func slice(t *testing.T, address string) *discoveryv1.EndpointSlice {
	t.Helper()
	at := must.Get(netip.ParseAddrPort(address))(t)
	s := kubetest.EndpointSlice("policy", "hook", at.Addr().String())
	s.Ports[0].Port = new(int32(at.Port()))
	return s
}
