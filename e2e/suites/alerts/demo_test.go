package alerts

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestDemo watches the demo as a newcomer does: it reports each broken webhook
// and no healthy one, then alerts fire, and Ctrl-C ends it.
func TestDemo(t *testing.T) {
	t.Parallel()
	const demo = "bin/demo" // linked anew only when it has changed
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-C", "../..", "-o", demo, "./demo").CombinedOutput(); err != nil {
		t.Fatalf("building the demo: %v\n%s", err, output)
	}
	log := filepath.Join(t.TempDir(), "log")
	cmd := interactive(t, log, demo, "bin", testenv.Binary(t))
	for _, name := range []string{"WebhookBackendDown", "WebhookCallsFailing", "WebhookConversionFailing", "WebhookOnVirtualResource"} {
		eventually(t, func(context.Context) error {
			text, err := os.ReadFile(log)
			if err == nil && !regexp.MustCompile(`alert after \d+ s: `+name+` `).Match(text) {
				err = fmt.Errorf("no %s in:\n%s", name, text)
			}
			return err
		})
	}
	text, err := os.ReadFile(log)
	testenv.Must(t, err)
	reported(t, string(text))
	testenv.Must(t, cmd.Process.Signal(syscall.SIGINT))
	if err := cmd.Wait(); err != nil {
		t.Errorf("ending the demo: %v\n%s", err, bytes.TrimSpace(text))
	}
}

// interactive starts a demo that stays; it is ended with the test, if not
// before.
func interactive(t *testing.T, log, demo string, args ...string) *exec.Cmd {
	t.Helper()
	out, err := os.Create(log)
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, out.Close()) })
	cmd := exec.CommandContext(t.Context(), demo, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "../..", out, out
	cmd.Env = append(os.Environ(), "DEMO_ONCE=")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 30 * time.Second
	testenv.Must(t, cmd.Start())
	return cmd
}

// reported wants a line of the demo's report about each broken webhook.
func reported(t *testing.T, text string) {
	t.Helper()
	_, report, _ := strings.Cut(text, "webhook-auditor audit")
	for name, check := range map[string]string{
		"configmaps.legacy.example.com":  "service-missing",
		"ingresses.gateway.example.com":  "service-port-missing",
		"jobs.scheduler.example.com":     "no-ready-endpoints",
		"backups.storage.example.com":    "service-missing",
		"cronjobs.quota.example.com":     "ca-bundle-invalid",
		"pods.guard.example.com":         "bootstrap-deadlock",
		"bindings.placement.example.com": "virtual-resource",
		"tokenreviews.login.example.com": "dead-rule",
	} {
		if !regexp.MustCompile(check + ".*" + name + "|" + name + ".*" + check).MatchString(report) {
			t.Errorf("no line reports %s about %s in:\n%s", check, name, text)
		}
	}
	if strings.Contains(report, "secrets.validator.example.com") {
		t.Errorf("a healthy webhook is reported in:\n%s", text)
	}
}
