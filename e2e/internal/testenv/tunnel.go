package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/proxy"
)

// Tunnel is a tunnel, and the flag that has an API server reach webhooks through it.
func Tunnel(t testing.TB) (tunnel proxy.Tunnel, flag string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "tunnel")
	tunnel = Get(proxy.StartTunnel(socket))(t)
	t.Cleanup(func() { Must(t, tunnel.Close()) })
	file := filepath.Join(t.TempDir(), "egress.yaml")
	Must(t, os.WriteFile(file, fmt.Appendf(nil, `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      uds:
        udsName: %s
`, socket), 0o600))
	return tunnel, "--egress-selector-config-file=" + file
}
