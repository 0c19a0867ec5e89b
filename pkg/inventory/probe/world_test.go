package probe

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// authority signs certificates.
type authority struct {
	bundle      []byte
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"},
		NotBefore: time.Now().AddDate(-1, 0, 0), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true,
	}
	certificate, der := sign(t, template, authority{certificate: template, key: key}, key)
	return authority{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), certificate, key}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, template *x509.Certificate, by authority, key *ecdsa.PrivateKey) (*x509.Certificate, []byte) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, by.certificate, key.Public(), by.key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, der
}

// serving signs the certificate of a server.
func (a authority) serving(t *testing.T, name string, from, to time.Time) tls.Certificate {
	t.Helper()
	key := newKey(t)
	_, der := sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{name}, NotBefore: from, NotAfter: to,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// hook is the name of the Service of all tests, as the API server wants it in
// certificates.
const hook = "hook.policy.svc"

// healthy is a good certificate of the Service.
func (a authority) healthy(t *testing.T) *tls.Config {
	return a.config(t, hook, -time.Hour, time.Hour)
}

func (a authority) config(t *testing.T, name string, from, to time.Duration) *tls.Config {
	t.Helper()
	now := time.Now()
	return &tls.Config{Certificates: []tls.Certificate{a.serving(t, name, now.Add(from), now.Add(to))}}
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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

// refusing is an address without a listener.
func refusing(t *testing.T) string {
	listener := listen(t)
	listener.Close()
	return listener.Addr().String()
}

// objects are webhooks that call the Service, which has the endpoints.
func objects(t *testing.T, bundles [][]byte, addresses ...string) inventory.Objects {
	t.Helper()
	o := inventory.Objects{
		Routing:        inventory.RoutingEndpoints,
		EndpointsKnown: inventory.Coverage{All: true},
		Services:       []*corev1.Service{{ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: "hook"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}}}},
	}
	configuration := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "policy"}}
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
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Labels: map[string]string{discoveryv1.LabelServiceName: "hook"}},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{host}}},
		Ports:      []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(port))}},
	}
}
