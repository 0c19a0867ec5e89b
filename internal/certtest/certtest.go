// Package certtest has certificates for tests.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// Authority signs certificates.
type Authority struct {
	Bundle []byte
	root   *x509.Certificate
	key    *ecdsa.PrivateKey
}

// NewAuthority returns an Authority whose own certificate expires at that time.
func NewAuthority(t testing.TB, notAfter time.Time) Authority {
	t.Helper()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"},
		NotBefore: notAfter.AddDate(-2, 0, 0), NotAfter: notAfter,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der := must.Get(x509.CreateCertificate(rand.Reader, root, root, key.Public(), key))(t)
	return Authority{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), root, key}
}

// Sign returns a certificate like the template.
func (a Authority) Sign(t testing.TB, template *x509.Certificate) tls.Certificate {
	t.Helper()
	template.SerialNumber = big.NewInt(2)
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der := must.Get(x509.CreateCertificate(rand.Reader, template, a.root, key.Public(), a.key))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Bundle returns CA certificates in PEM that expire at the times.
func Bundle(t testing.TB, notAfter ...time.Time) []byte {
	t.Helper()
	var out []byte
	for _, expiry := range notAfter {
		out = append(out, NewAuthority(t, expiry).Bundle...)
	}
	return out
}
