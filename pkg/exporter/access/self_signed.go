package access

import (
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"k8s.io/client-go/util/cert"
)

// How long a self-signed certificate is valid, and how long before its end it is
// replaced.
const (
	selfSignedFor = 90 * 24 * time.Hour
	renewedBefore = 30 * 24 * time.Hour
)

// SelfSigned makes a serving certificate in memory, as Kubernetes' own servers do where
// they have none, and another one before it expires. It encrypts but does not
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
	made, err := s.sign()
	if err != nil {
		return nil, fmt.Errorf("making a self-signed certificate: %w", err)
	}
	s.current = made
	return made, nil
}

func (s *SelfSigned) sign() (*tls.Certificate, error) {
	o := cert.SelfSignedCertKeyOptions{Host: "webhook-auditor", MaxAge: selfSignedFor}
	for _, name := range s.Names {
		if ip := net.ParseIP(name); ip != nil {
			o.AlternateIPs = append(o.AlternateIPs, ip)
		} else {
			o.AlternateDNS = append(o.AlternateDNS, name)
		}
	}
	pem, key, err := cert.GenerateSelfSignedCertKeyWithOptions(o)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(pem, key)
	return &pair, err
}
