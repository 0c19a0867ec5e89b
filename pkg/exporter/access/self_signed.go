package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"
)

// How long a self-signed certificate is valid, how long before its end it is
// replaced, and by how much the clocks of clients may be behind.
const (
	selfSignedFor = 90 * 24 * time.Hour
	renewedBefore = 30 * 24 * time.Hour
	clocksBehind  = time.Hour
)

// SelfSigned makes a serving certificate in memory, signed with its own key,
// and another one before it expires. It encrypts but does not
// authenticate the server.
type SelfSigned struct {
	// Names are the DNS names and IP addresses that it is for.
	Names []string
	Now   func() time.Time

	current *tls.Certificate
}

func (s *SelfSigned) get() (*tls.Certificate, error) {
	now := s.Now()
	if s.current != nil && now.Before(s.current.Leaf.NotAfter.Add(-renewedBefore)) {
		return s.current, nil
	}
	made, err := s.sign(now)
	if err != nil {
		return nil, fmt.Errorf("making a self-signed certificate: %w", err)
	}
	s.current = made
	return made, nil
}

func (s *SelfSigned) sign(now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "webhook-auditor, self-signed"},
		NotBefore:    now.Add(-clocksBehind),
		NotAfter:     now.Add(selfSignedFor),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range s.Names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}
