package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// observedPair is a KeyPair with what it reported, and its clock.
type observedPair struct {
	*KeyPair
	now   time.Time
	certs []*x509.Certificate
	errs  []error
}

// newPair is a KeyPair whose files do not exist yet, with a certificate that
// stands in for them.
func newPair(t *testing.T) *observedPair {
	t.Helper()
	dir := t.TempDir()
	p := &observedPair{now: time.Now()}
	p.KeyPair = &KeyPair{
		CertFile:   filepath.Join(dir, "tls.crt"),
		KeyFile:    filepath.Join(dir, "tls.key"),
		SelfSigned: &SelfSigned{Names: []string{"auditor.example.svc", "127.0.0.1"}, Now: func() time.Time { return p.now }},
		OnChange: func(c *x509.Certificate, err error) {
			p.certs, p.errs = append(p.certs, c), append(p.errs, err)
		},
	}
	return p
}

func (p *observedPair) get(t *testing.T) *tls.Certificate {
	t.Helper()
	return must.Get(p.Get(nil))(t)
}

// write writes a pair of its own into the files.
func (p *observedPair) write(t *testing.T) {
	t.Helper()
	pem, key, err := cert.GenerateSelfSignedCertKey("from.files", nil, nil)
	must.Succeed(t, err)
	must.Write(t, p.CertFile, string(pem))
	must.Write(t, p.KeyFile, string(key))
}

func TestSelfSignedCertificate(t *testing.T) {
	p := newPair(t)
	made := p.get(t)
	leaf, roots := made.Leaf, x509.NewCertPool()
	roots.AddCert(must.Get(x509.ParseCertificate(made.Certificate[1]))(t))
	for _, name := range []string{"auditor.example.svc", "127.0.0.1"} {
		// The clocks of clients may be behind.
		for _, at := range []time.Time{p.now.Add(-30 * time.Minute), p.now, leaf.NotAfter.Add(-time.Minute)} {
			if _, err := leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: at}); err != nil {
				t.Errorf("%s at %s: %v", name, at, err)
			}
		}
	}
	if len(p.errs) != 1 || !errors.Is(p.errs[0], fs.ErrNotExist) || p.certs[0] != leaf {
		t.Errorf("reported %v, want once that the files are missing", p.errs)
	}
}

// TestSelfSignedCertificateIsRenewed before it expires, and not with every
// connection.
func TestSelfSignedCertificateIsRenewed(t *testing.T) {
	p := newPair(t)
	first := p.get(t)
	p.now = first.Leaf.NotAfter.Add(-renewedBefore - time.Minute)
	if p.get(t) != first {
		t.Error("renewed too soon")
	}
	p.now = p.now.Add(2 * time.Minute)
	if p.get(t) == first {
		t.Errorf("at %s still one that expires at %s", p.now, first.Leaf.NotAfter)
	}
	if len(p.certs) != 2 {
		t.Errorf("reported %d certificates, want 2", len(p.certs))
	}
}

// TestFilesTakeOver from the self-signed certificate as soon as they hold a
// pair, and stay when they are broken afterwards.
func TestFilesTakeOver(t *testing.T) {
	p := newPair(t)
	own := p.get(t)
	must.Write(t, p.CertFile, "half")
	if p.get(t) != own {
		t.Error("half a pair is no reason for another certificate")
	}
	p.write(t)
	given := p.get(t)
	if given == own || given.Leaf.DNSNames[0] != "from.files" {
		t.Errorf("still serving with %v", given.Leaf.DNSNames)
	}
	must.Succeed(t, os.Remove(p.KeyFile))
	if p.get(t) != given {
		t.Error("the last good pair is no longer in use")
	}
	last := len(p.errs) - 1
	if p.errs[last-1] != nil || p.certs[last-1] != given.Leaf || p.errs[last] == nil || p.certs[last] != nil {
		t.Errorf("reported %v", p.errs)
	}
}

func TestNoCertificate(t *testing.T) {
	p := newPair(t)
	p.SelfSigned = nil
	if _, err := p.Get(nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("want the missing file, have %v", err)
	}
}
