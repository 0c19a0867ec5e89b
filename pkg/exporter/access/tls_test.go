package access

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/webhook-auditor/webhook-auditor/internal/certtest"
	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// TestFilesTakeOver from the self-signed certificate as soon as they hold a
// pair, and stay when they are broken afterwards.
func TestFilesTakeOver(t *testing.T) {
	var names []string
	var problem error
	dir := t.TempDir()
	p := &KeyPair{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"), StandIn: must.Get(SelfSigned())(t)}
	p.OnRead = func(c *x509.Certificate, err error) {
		names, problem = nil, err
		if c != nil {
			names = c.DNSNames
		}
	}
	serves := func(own, broken bool, reported ...string) {
		t.Helper()
		if served := must.Get(p.Get(nil))(t); (served == p.StandIn) != own || (problem != nil) != broken {
			t.Errorf("serving with %v, %v", served.Leaf.DNSNames, problem)
		}
		expect.Equal(t, reported, names)
	}
	serves(true, true)
	must.Write(t, p.CertFile, "half")
	serves(true, true)
	pem, key, err := cert.GenerateSelfSignedCertKey("from.files", nil, nil)
	must.Succeed(t, err)
	must.Write(t, p.CertFile, string(pem))
	must.Write(t, p.KeyFile, string(key))
	serves(false, false, "from.files")
	must.Succeed(t, os.Remove(p.KeyFile))
	serves(false, true, "from.files")
}

func TestNoCertificate(t *testing.T) {
	if _, err := (&KeyPair{CertFile: "none", KeyFile: "none"}).Get(nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("want the missing file, have %v", err)
	}
}

type authority struct {
	bundle []byte
	client *http.Client
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	ca := certtest.NewAuthority(t, time.Now().Add(time.Hour))
	user := ca.Sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "prometheus"}, NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	config := &tls.Config{
		InsecureSkipVerify: true,
		ClientSessionCache: tls.NewLRUClientSessionCache(1),
		// It is sent whatever CAs the server names.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &user, nil },
	}
	return authority{ca.Bundle, &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}}
}

func (a authority) verified(t *testing.T, url string) bool {
	t.Helper()
	response, err := a.client.Get(url)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

// TestClientCAChanges: a new bundle counts at the next connection, also for those
// who resume a session, and one that cannot be read leaves the last one in use.
func TestClientCAChanges(t *testing.T) {
	ca := &ClientCA{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.VerifiedChains) == 0 {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	server.TLS = Config(&KeyPair{StandIn: must.Get(SelfSigned())(t)}, ca)
	server.StartTLS()
	defer server.Close()
	first, second := newAuthority(t), newAuthority(t)
	for i, step := range []struct {
		bundle        []byte
		first, second bool
		failing       bool
	}{
		{bundle: first.bundle, first: true},
		{bundle: bytes.Join([][]byte{first.bundle, second.bundle}, nil), first: true, second: true},
		{bundle: second.bundle, second: true},
		{bundle: []byte("half written"), second: true, failing: true},
		{bundle: first.bundle, first: true},
	} {
		if err := ca.Set(step.bundle); (err != nil) != step.failing {
			t.Errorf("step %d: %v", i, err)
		}
		if one, other := first.verified(t, server.URL), second.verified(t, server.URL); one != step.first || other != step.second {
			t.Errorf("step %d: the first CA's user is verified: %v, the second's: %v", i, one, other)
		}
	}
}
