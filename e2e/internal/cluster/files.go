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

// write writes several small files, by name.
func (f folder) write(files map[string][]byte) error {
	for name, content := range files {
		if err := os.WriteFile(f.path(name), content, 0o600); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}

// credentials writes everything the servers need to trust each other: what
// they serve with, how they call each other, and the key of service accounts.
func (f folder) credentials(users, proxies *ca.Authority) error {
	serving, err := users.Serving("localhost", "127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
	if err != nil {
		return err
	}
	proxy, err := proxies.Client("front-proxy-client")
	if err != nil {
		return err
	}
	return f.write(map[string][]byte{
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
	})
}
