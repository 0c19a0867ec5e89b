package access

import (
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/util/cert"

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
