package cluster

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/ca"
)

// folder is where a control plane keeps its certificates, logs and data.
type folder string

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

// Credentials writes into a folder all that the servers need to trust each other: what
// an API server with these names serves with, how they call each other, and the key of
// service accounts.
func Credentials(dir string, users *ca.Authority, hosts ...string) error {
	proxies, err := ca.New("front-proxy")
	if err != nil {
		return err
	}
	serving, err := users.Serving(append(hosts, "localhost", "127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc")...)
	if err != nil {
		return err
	}
	proxy, err := proxies.Client("front-proxy-client")
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"ca.crt":             users.Bundle,
		"serving.crt":        serving.Certificate,
		"serving.key":        serving.Key,
		"front-proxy-ca.crt": proxies.Bundle,
		"front-proxy.crt":    proxy.Certificate,
		"front-proxy.key":    proxy.Key,
		// Any key pair will do to sign service account tokens: a second
		// use of one that exists.
		"service-account.key": proxy.Key,
		"service-account.crt": proxy.Certificate,
	} {
		if err := os.WriteFile(folder(dir).path(name), content, 0o600); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}

// Trust are the flags by which an API server uses the credentials of a folder.
func Trust(dir string) []string {
	f := folder(dir)
	return flags(map[string]string{
		"tls-cert-file":        f.path("serving.crt"),
		"tls-private-key-file": f.path("serving.key"),

		"client-ca-file":                     f.path("ca.crt"),
		"requestheader-client-ca-file":       f.path("front-proxy-ca.crt"),
		"requestheader-allowed-names":        "front-proxy-client",
		"requestheader-username-headers":     "X-Remote-User",
		"requestheader-group-headers":        "X-Remote-Group",
		"requestheader-extra-headers-prefix": "X-Remote-Extra-",
		"proxy-client-cert-file":             f.path("front-proxy.crt"),
		"proxy-client-key-file":              f.path("front-proxy.key"),
		"service-account-issuer":             "https://kubernetes.default.svc.cluster.local",
		"service-account-key-file":           f.path("service-account.crt"),
		"service-account-signing-key-file":   f.path("service-account.key"),
	})
}
