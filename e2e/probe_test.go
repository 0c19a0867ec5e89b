package e2e

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
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/webhook"
)

const (
	probeSuccess    = auditor.Prefix + "webhook_probe_success"
	probeDuration   = auditor.Prefix + "webhook_probe_duration_seconds"
	servingNotAfter = auditor.Prefix + "webhook_serving_certificate_not_after_timestamp_seconds"
)

// pitfall is a backend that the objects show to be fine, and that the API server
// cannot call all the same.
type pitfall struct {
	name, check string
	// dns is the name in the certificate, left how long it is valid yet; where
	// dns is "", nobody listens.
	dns  string
	left time.Duration
	// stranger says that the CA bundle is another one's.
	stranger bool
	error    string // what the API server says
}

var pitfalls = []pitfall{
	{name: "healthy", dns: "hook.probe-healthy.svc", left: 300 * 24 * time.Hour},
	{name: "stranger", check: "serving-certificate", dns: "hook.probe-stranger.svc", left: 300 * 24 * time.Hour, stranger: true, error: "certificate signed by unknown authority"},
	{name: "misnamed", check: "serving-certificate", dns: "hook.elsewhere.svc", left: 300 * 24 * time.Hour, error: "not hook.probe-misnamed.svc"},
	{name: "expired", check: "serving-certificate", dns: "hook.probe-expired.svc", left: -time.Hour, error: "certificate has expired"},
	{name: "refused", check: "backend-unreachable", error: "connection refused"},
}

// TestProbe: the probe of the auditor ends as the calls of the API server do.
func TestProbe(t *testing.T) {
	t.Parallel()
	w := use(t, stock)
	a := w.probing(t)
	for _, x := range pitfalls {
		t.Run(x.name, func(t *testing.T) { x.probed(t, w, watcher{a, t}) })
	}
}

// probed registers the backend and wants the auditor and the API server to
// agree on it.
func (x pitfall) probed(t *testing.T, w *world, watcher watcher) {
	b := w.backend(t, "probe-"+x.name)
	h := hook(b, "/allow/probe", rule("", "configmaps"))
	own := x.listen(t, b)
	h.ClientConfig.CABundle = own
	if x.stranger {
		h.ClientConfig.CABundle = w.hooks.CABundle()
	}
	made := w.validate(t, b.Namespace, h)
	labels := identity("validating", b.Namespace, h.Name)
	if x.check == "" {
		watcher.succeeds(labels)
		return
	}
	watcher.finds(x.check, "warning", labels)
	watcher.sees("the dial fails", metrics.Equals(probeSuccess, labels, 0))
	watcher.sees("the objects look fine", metrics.Equals(backendReady, labels, 1))
	eventually(t, func() error { return w.refused(t, b.Namespace, x.error) })
	if x.stranger {
		made.Webhooks[0].ClientConfig.CABundle = own
		_, err := w.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Update(t.Context(), made, metav1.UpdateOptions{})
		must(t, err)
		watcher.forgets(x.check, labels)
		watcher.succeeds(labels)
	}
}

func (w watcher) succeeds(labels metrics.Labels) {
	w.t.Helper()
	w.sees("the dial succeeds", metrics.Equals(probeSuccess, labels, 1))
	w.sees("how long it took", metrics.Present(probeDuration, labels))
	w.sees("when the certificate ends", metrics.Present(servingNotAfter, labels))
}

// TestProbeOnce: "audit" dials only when it is told to, and has no clock to
// wait for.
func TestProbeOnce(t *testing.T) {
	t.Parallel()
	w := use(t, stock)
	b := w.backend(t, "probe-once")
	pitfall{}.listen(t, b)
	w.validate(t, b.Namespace, hook(b, "/allow/probe", rule("", "configmaps")))
	path, err := binary()
	must(t, err)
	for _, test := range []struct {
		probe string
		found bool
	}{{"off", false}, {"tls", true}} {
		result, err := auditor.Command(t.Context(), path, "audit", "--kubeconfig="+w.plane.Kubeconfig(), "--aggregator-routing=true", "--fail-on=never", "-o=json", "--probe="+test.probe)
		must(t, err)
		if found := strings.Contains(result.Stdout, `"backend-unreachable"`); found != test.found {
			t.Errorf("--probe=%s: found: %t, want %t; stderr: %s", test.probe, found, test.found, result.Stderr)
		}
	}
}

// probing runs an auditor that dials, until the end of the test. The cluster's
// DNS and cluster IPs do not exist here; endpoints do.
func (w *world) probing(t *testing.T) *auditor.Auditor {
	t.Helper()
	path, err := binary()
	must(t, err)
	a, err := auditor.Start(t.Context(), auditor.Options{
		Binary: path, Kubeconfig: w.plane.Kubeconfig(),
		Flags: []string{"--probe=tls", "--aggregator-routing=true"},
	})
	must(t, err)
	t.Cleanup(func() { must(t, a.Stop()) })
	return a
}

// listen puts a server of its own behind the Service, until the end of the
// test, and returns the CA bundle that goes with it.
func (x pitfall) listen(t *testing.T, b webhook.Backend) []byte {
	t.Helper()
	if x.dns == "" {
		must(t, listening(t, b).Close())
		return b.Server.CABundle()
	}
	return x.serve(t, b, &http.Server{Handler: b.Server, TLSConfig: &tls.Config{}})
}

// serve is listen with a server of one's choice.
func (x pitfall) serve(t *testing.T, b webhook.Backend, server *http.Server) []byte {
	t.Helper()
	certificate := x.certificate(t)
	server.TLSConfig.Certificates = []tls.Certificate{certificate}
	server.ErrorLog = log.New(io.Discard, "", 0) // the API server's refusals
	listener := listening(t, b)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.ServeTLS(listener, "", "")
	}()
	t.Cleanup(func() {
		must(t, server.Close())
		<-served
	})
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
}

// listening puts a listener behind the Service.
func listening(t *testing.T, b webhook.Backend) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	redirect(t, b, listener.Addr())
	return listener
}

// certificate is self-signed: its own CA bundle.
func (x pitfall) certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	end := time.Now().Add(x.left)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(end.UnixNano()),
		DNSNames:     []string{x.dns},
		NotBefore:    end.AddDate(-1, 0, 0),
		NotAfter:     end,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// redirect makes the endpoint of the backend listen elsewhere.
func redirect(t *testing.T, b webhook.Backend, address net.Addr) {
	t.Helper()
	slices := b.Client.DiscoveryV1().EndpointSlices(b.Namespace)
	slice, err := slices.Get(t.Context(), b.Name, metav1.GetOptions{})
	must(t, err)
	slice.Ports[0].Port = new(int32(address.(*net.TCPAddr).Port))
	_, err = slices.Update(t.Context(), slice, metav1.UpdateOptions{})
	must(t, err)
}
