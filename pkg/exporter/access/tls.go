package access

import (
	"cmp"
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
	"k8s.io/client-go/util/cert"
)

// KeyPair is a serving certificate in two files. It is read again when a file
// changes, so that a renewed certificate needs no restart.
type KeyPair struct {
	CertFile, KeyFile string
	// StandIn, if any, is served until the files hold a pair.
	StandIn *tls.Certificate
	// OnRead, if set, is called with the certificate of the files when it is another one,
	// and with the last good one, nil without any, and the error each time that they
	// cannot be read. It may not block.
	OnRead func(*x509.Certificate, error)

	mu      sync.Mutex
	current *tls.Certificate
	stamp   [2]time.Time
}

// Get is a tls.Config's GetCertificate. A pair that cannot be read, as half
// written ones cannot, leaves the last good one in use.
func (p *KeyPair) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stamp := [2]time.Time{modified(p.CertFile), modified(p.KeyFile)}
	if p.current != nil && stamp == p.stamp {
		return p.current, nil
	}
	pair, err := tls.LoadX509KeyPair(p.CertFile, p.KeyFile)
	if err == nil {
		p.current, p.stamp = &pair, stamp
	}
	served := cmp.Or(p.current, p.StandIn)
	if served == nil {
		return nil, fmt.Errorf("reading the serving certificate: %w", err)
	}
	if p.OnRead != nil && p.current != nil {
		p.OnRead(p.current.Leaf, err)
	} else if p.OnRead != nil {
		p.OnRead(nil, err)
	}
	return served, nil
}

// SelfSigned makes a serving certificate in memory, as Kubernetes' own servers do where
// they have none. It encrypts and does not authenticate the server: clients that take it
// verify neither its names nor its dates.
func SelfSigned() (*tls.Certificate, error) {
	pem, key, err := cert.GenerateSelfSignedCertKey("webhook-auditor", nil, nil)
	if err != nil {
		return nil, fmt.Errorf("making a self-signed certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(pem, key)
	return &pair, err
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
