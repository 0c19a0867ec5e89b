package inventory

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"testing"
	"time"
)

// bundle is CA certificates in PEM with the expiries.
func bundle(t *testing.T, notAfter ...time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for i, expiry := range notAfter {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)),
			Subject:      pkix.Name{CommonName: "test"},
			NotBefore:    expiry.Add(-time.Hour),
			NotAfter:     expiry,
			IsCA:         true,
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestAuthority(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	first, last := now.Add(time.Hour), now.Add(2*time.Hour)
	both := bundle(t, last, first)
	junk := []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	key := []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
	for name, tc := range map[string]struct {
		bundle                         []byte
		notAfter                       time.Time
		certificates                   int
		placeholder, blanked, tooLarge bool
	}{
		"not PEM":         {bundle: []byte("hello")},
		"not parsable":    {bundle: junk},
		"line break":      {bundle: []byte("\n"), placeholder: true},
		"written out":     {bundle: []byte(`\n`), placeholder: true},
		"blanked":         {bundle: []byte("xxxx"), blanked: true},
		"too large":       {bundle: make([]byte, maxBundle+1), tooLarge: true},
		"expired":         {bundle: bundle(t, now.AddDate(-3, 0, 0)), notAfter: now.AddDate(-3, 0, 0), certificates: 1},
		"rotation":        {bundle: both, notAfter: last, certificates: 2},
		"among other PEM": {bundle: slices.Concat(key, junk, both, []byte("trailing")), notAfter: last, certificates: 2},
	} {
		t.Run(name, func(t *testing.T) {
			a := readAuthority(tc.bundle)
			if !a.NotAfter.Equal(tc.notAfter) || len(a.Certificates) != tc.certificates {
				t.Errorf("%d certificates until %v, want %d until %v", len(a.Certificates), a.NotAfter, tc.certificates, tc.notAfter)
			}
			if a.Placeholder != tc.placeholder || a.Blanked != tc.blanked || a.TooLarge != tc.tooLarge {
				t.Errorf("placeholder %v, blanked %v, too large %v", a.Placeholder, a.Blanked, a.TooLarge)
			}
		})
	}
	if readAuthority(nil) != nil {
		t.Error("an empty bundle is none")
	}
}
