package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KeyPair is a serving certificate in two files. It is read again when a file
// changes, so that a renewed certificate needs no restart.
type KeyPair struct {
	CertFile, KeyFile string
	// SelfSigned, if any, stands in until the files hold a pair.
	SelfSigned *SelfSigned
	// OnChange, if set, is called with each certificate when it is first served,
	// with the reason if it is self-signed; and without a certificate on each
	// failure to read the files while the last good pair stays in use. It may
	// not block.
	OnChange func(*x509.Certificate, error)

	mu      sync.Mutex
	current *tls.Certificate
	stamp   [2]time.Time
	// reported is the last certificate that OnChange got.
	reported *tls.Certificate
}

// errNoFiles is why a certificate stands in without files.
var errNoFiles = errors.New("no certificate is given")

// Get is a tls.Config's GetCertificate. A pair that cannot be read, as half
// written ones cannot, leaves the last good one in use.
func (p *KeyPair) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	reason := p.read()
	served := p.current
	if served == nil {
		var err error
		if served, err = p.standIn(reason); err != nil {
			return nil, err
		}
	}
	switch {
	case served != p.reported:
		p.reported = served
		p.tell(served.Leaf, reason)
	case p.current != nil && reason != nil:
		p.tell(nil, reason)
	}
	return served, nil
}

// standIn is what to serve with where the files cannot be read.
func (p *KeyPair) standIn(reason error) (*tls.Certificate, error) {
	if p.SelfSigned == nil {
		return nil, fmt.Errorf("reading the serving certificate: %w", reason)
	}
	return p.SelfSigned.get()
}

func (p *KeyPair) tell(leaf *x509.Certificate, err error) {
	if p.OnChange != nil {
		p.OnChange(leaf, err)
	}
}

// read takes the pair of the files, if it is another one.
func (p *KeyPair) read() error {
	if p.CertFile == "" {
		return errNoFiles
	}
	stamp := [2]time.Time{modified(p.CertFile), modified(p.KeyFile)}
	if p.current != nil && stamp == p.stamp {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(p.CertFile, p.KeyFile)
	if err == nil {
		p.current, p.stamp = &pair, stamp
	}
	return err
}

func modified(file string) time.Time {
	info, err := os.Stat(file)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// ClientCA is the bundle that client certificates are verified with. It may
// change while the program runs.
type ClientCA struct{ pool atomic.Pointer[x509.CertPool] }

// Set takes a new bundle in PEM.
func (c *ClientCA) Set(pem []byte) error {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return errors.New("reading the client CA: no certificate in it")
	}
	c.pool.Store(pool)
	return nil
}

// The ConfigMap with the bundle that the API server publishes for its extensions.
const (
	ClientCANamespace = metav1.NamespaceSystem
	clientCAName      = "extension-apiserver-authentication"
)

// GetConfigMap is the method Get of a client of ConfigMaps.
type GetConfigMap func(ctx context.Context, name string, o metav1.GetOptions) (*corev1.ConfigMap, error)

// Follow reads that ConfigMap by the client of its namespace,
// now and every few minutes, until the context ends. It reports each reading
// with its error, nil on success; without the bundle tokens still work.
func (c *ClientCA) Follow(ctx context.Context, get GetConfigMap, report func(error)) {
	const every, soon = 5 * time.Minute, 5 * time.Second
	for {
		err, pause := c.read(ctx, get), every
		if err != nil {
			pause = soon
		}
		if ctx.Err() == nil {
			report(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (c *ClientCA) read(ctx context.Context, get GetConfigMap) error {
	found, err := get(ctx, clientCAName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading ConfigMap %s/%s: %w; bind the Role extension-apiserver-authentication-reader", ClientCANamespace, clientCAName, err)
	}
	return c.Set([]byte(found.Data["client-ca-file"]))
}

// Config returns the TLS configuration of the server: TLS 1.2 or newer, and
// client certificates verified where a client sends one.
func Config(pair *KeyPair, ca *ClientCA) *tls.Config {
	base := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: pair.Get,
		NextProtos:     []string{"h2", "http/1.1"},
	}
	base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pool := ca.pool.Load()
		if pool == nil {
			return nil, nil // the base: without client certificates
		}
		verified := base.Clone()
		verified.ClientAuth, verified.ClientCAs = tls.VerifyClientCertIfGiven, pool
		return verified, nil
	}
	return base
}
