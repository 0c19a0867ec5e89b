// Package ca makes certificate authorities and the certificates of
// servers and clients, for one run of a test.
package ca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// validity is how long certificates last: longer than the auditor warns of.
const validity = 365 * 24 * time.Hour

// Pair is a certificate and its private key, both in PEM.
type Pair struct{ Certificate, Key []byte }

// Authority signs certificates. Every control plane and every webhook server
// has its own, so that no client trusts another server on a recycled port.
type Authority struct {
	Bundle      []byte // its own certificate in PEM, as caBundle fields want it
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// New makes a certificate authority called name.
func New(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of authority %s: %w", name, err)
	}
	template := template(pkix.Name{CommonName: name})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing authority %s: %w", name, err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading back authority %s: %w", name, err)
	}
	return &Authority{Bundle: encode("CERTIFICATE", der), certificate: certificate, key: key}, nil
}

// Serving signs a certificate for servers reached under the given names and
// addresses.
func (a *Authority) Serving(hosts ...string) (Pair, error) {
	return a.ServingUntil(time.Now().Add(validity), hosts...)
}

// ServingUntil signs one that ends at a given time, which may have passed.
func (a *Authority) ServingUntil(end time.Time, hosts ...string) (Pair, error) {
	template := template(pkix.Name{CommonName: "server"})
	template.NotBefore, template.NotAfter = end.Add(-validity-time.Hour), end
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return a.sign(template)
}

// Client signs a certificate that makes its holder the given user, a member of
// the given groups.
func (a *Authority) Client(user string, groups ...string) (Pair, error) {
	template := template(pkix.Name{CommonName: user, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(template)
}

func (a *Authority) sign(template *x509.Certificate) (Pair, error) {
	name := template.Subject.CommonName
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("making the key of %s: %w", name, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("signing the certificate of %s: %w", name, err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encoding the key of %s: %w", name, err)
	}
	return Pair{Certificate: encode("CERTIFICATE", der), Key: encode("EC PRIVATE KEY", private)}, nil
}

// template is what all certificates share. They begin an hour ago, for clocks
// that disagree.
func template(subject pkix.Name) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
