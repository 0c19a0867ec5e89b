//go:build linux && node

package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestHelm has the chart take over what kubectl applied, as its README prints it, and
// runs "helm test": its Pod asks for the metrics by the Service's name.
func TestHelm(t *testing.T) {
	chart := filepath.Join(real.root, "manifests", "chart")
	helm(t, "install webhook-auditor "+chart+" --namespace webhook-auditor --take-ownership --server-side=false")
	ready(t, home, "webhook-auditor")
	contains(t, "helm test", helm(t, "test webhook-auditor --namespace webhook-auditor --logs --timeout=3m"), "Succeeded", "critical")
}

func helm(t testing.TB, line string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(real.root, "e2e", "bin", "helm4"), strings.Fields(line)...)
	folder := t.TempDir()
	command.Env = append(os.Environ(), "KUBECONFIG="+real.Kubeconfig(), "HELM_CACHE_HOME="+folder, "HELM_CONFIG_HOME="+folder, "HELM_DATA_HOME="+folder)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("helm %s: %v\n%s", line, err, output)
	}
	return string(output)
}
