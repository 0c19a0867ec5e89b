package inventory

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"time"
	"unicode/utf8"
)

// Authority is what a CA bundle holds. Like the API server, it passes over
// what is not a certificate.
type Authority struct {
	// Certificates are those that can be read, in the order of the bundle.
	Certificates []Certificate
	// NotAfter is when the last of them expires. Until then calls verify: bundles
	// carry the old and the new CA during a rotation.
	NotAfter time.Time
	// Placeholder says that the bundle is there only because something had to
	// be: a line break, or an x, as generators write it for an injector to replace.
	Placeholder bool
	// Text is a short bundle without a certificate in it, as a person may have written it.
	Text string
	// Blanked says that the bundle is not the cluster's: insights archives write an x
	// for each of its bytes, and of files it may be filled in later. Nothing is known
	// of it.
	Blanked bool
}

type Certificate struct {
	Subject             string
	NotBefore, NotAfter time.Time
}

// maxText is longer than what a person writes where a bundle is to be.
const maxText = 40

// readAuthority reads a bundle; nil stands for an empty one.
func readAuthority(bundle []byte) *Authority {
	if len(bundle) == 0 {
		return nil
	}
	if blanked(bundle) {
		return &Authority{Blanked: true}
	}
	a := &Authority{}
	for rest := bundle; len(rest) > 0; {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
			continue
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			a.Certificates = append(a.Certificates, Certificate{c.Subject.String(), c.NotBefore, c.NotAfter})
			if c.NotAfter.After(a.NotAfter) {
				a.NotAfter = c.NotAfter
			}
		}
	}
	a.Placeholder = len(a.Certificates) == 0 && placeholder(bundle)
	if text := strings.TrimSpace(string(bundle)); len(a.Certificates) == 0 && len(text) <= maxText &&
		utf8.ValidString(text) {
		a.Text = text
	}
	return a
}

// placeholder reports whether the bundle is white space, or an x: kubebuilder's
// generators write base64 of a line break, or of a backslash and an n.
func placeholder(bundle []byte) bool {
	rest := bytes.ReplaceAll(bundle, []byte(`\n`), nil)
	rest = bytes.TrimSpace(rest)
	return len(rest) == 0 || string(rest) == "x"
}

// blanked reports whether the bundle was made unreadable on purpose.
// Source: the anonymizer of github.com/openshift/insights-operator.
func blanked(bundle []byte) bool { return len(bundle) > 1 && len(bytes.Trim(bundle, "x")) == 0 }
