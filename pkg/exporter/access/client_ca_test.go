package access

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority is a CA with a user that it certified.
type authority struct {
	bundle []byte
	client *http.Client
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(template, parent *x509.Certificate) []byte {
		template.SerialNumber, template.NotAfter = big.NewInt(1), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	ca := &x509.Certificate{Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: sign(ca, ca)})
	user := sign(&x509.Certificate{Subject: pkix.Name{CommonName: "prometheus"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, ca)
	config := &tls.Config{
		InsecureSkipVerify: true,
		ClientSessionCache: tls.NewLRUClientSessionCache(1),
		// It is sent whatever CAs the server names.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &tls.Certificate{Certificate: [][]byte{user}, PrivateKey: key}, nil
		},
	}
	return authority{bundle, &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}}
}

// verified reports whether the server verifies the user.
func (a authority) verified(t *testing.T, url string) bool {
	t.Helper()
	response, err := a.client.Get(url)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

// TestClientCAIsReloaded: a new bundle counts at the next connection, also for those
// who resume a session, and one that cannot be read leaves the last one in use.
func TestClientCAIsReloaded(t *testing.T) {
	var reported error
	ca := &ClientCA{File: filepath.Join(t.TempDir(), "ca.crt"), OnRead: func(err error) { reported = err }}
	if ca.Read() == nil || reported == nil {
		t.Error("a missing file is no error")
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.VerifiedChains) == 0 {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	server.TLS = Config(&KeyPair{SelfSigned: &SelfSigned{Names: []string{"127.0.0.1"}, Now: time.Now}}, ca)
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
		changed := time.Now().Add(time.Duration(i) * time.Minute)
		if err := os.WriteFile(ca.File, step.bundle, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(ca.File, changed, changed); err != nil {
			t.Fatal(err)
		}
		if one, other := first.verified(t, server.URL), second.verified(t, server.URL); one != step.first || other != step.second {
			t.Errorf("step %d: the first CA's user is verified: %v, the second's: %v", i, one, other)
		}
		if (reported != nil) != step.failing {
			t.Errorf("step %d: reported %v", i, reported)
		}
	}
}
