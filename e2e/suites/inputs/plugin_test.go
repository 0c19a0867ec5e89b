package inputs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestPlugin: kubectl finds the binary under the names of a plugin, runs it, and
// has it complete its own arguments.
func TestPlugin(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	b := w.Backend(t, "plugin")
	testenv.Must(t, b.DeleteService(t.Context()))
	w.Validate(t, "plugin", testenv.Hook(b, "/allow", testenv.Rule("", "configmaps")))
	binaries := testenv.Get(programs.ControlPlane())(t)
	path := t.TempDir()
	for _, name := range []string{"kubectl-webhook_auditor", "kubectl_complete-webhook_auditor"} {
		testenv.Must(t, os.Symlink(testenv.Binary(t), filepath.Join(path, name)))
	}
	kubectl := func(args ...string) (string, int) {
		command := exec.CommandContext(t.Context(), filepath.Join(binaries, "kubectl"), args...)
		command.Env = append(os.Environ(), "PATH="+path+string(os.PathListSeparator)+os.Getenv("PATH"), "KUBECONFIG="+w.Plane.Kubeconfig())
		output, _ := command.Output()
		return string(output), command.ProcessState.ExitCode()
	}

	const configuration = "validatingwebhookconfiguration/plugin"
	for _, args := range [][]string{{configuration}, {"validatingwebhookconfigurations", "plugin"}, {"validatingwebhookconfigurations", "-A"}, {"-n", b.Namespace}} {
		output, code := kubectl(slices.Concat([]string{"webhook-auditor", "audit", "-o", "table"}, args)...)
		if code != 3 || !testenv.ContainsAll(output, "service-missing", "plugin") {
			t.Errorf("%q: exit code %d:\n%s", args, code, output)
		}
	}
	for typed, want := range map[string]string{
		"audit validatingwebhook": "validatingwebhookconfiguration/",
		"explain cr":              "create",
		"audit --fail-on cr":      "critical",
	} {
		output, _ := kubectl(slices.Concat([]string{"__complete", "webhook-auditor"}, strings.Fields(typed))...)
		if !strings.Contains(output, want) {
			t.Errorf("%q is not completed to %q:\n%s", typed, want, output)
		}
	}
}
