package alerts

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestDemo watches the demo as a newcomer does: alerts fire, and Ctrl-C ends it.
func TestDemo(t *testing.T) {
	t.Parallel()
	const demo = "bin/demo" // linked anew only when it has changed
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-C", "../..", "-o", demo, "./demo").CombinedOutput(); err != nil {
		t.Fatalf("building the demo: %v\n%s", err, output)
	}
	log := filepath.Join(t.TempDir(), "log")
	out, err := os.Create(log)
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, out.Close()) })
	cmd := exec.CommandContext(t.Context(), demo, "bin", testenv.Binary(t))
	cmd.Dir, cmd.Stdout, cmd.Stderr = "../..", out, out
	cmd.Env = append(os.Environ(), "DEMO_ONCE=")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 30 * time.Second
	testenv.Must(t, cmd.Start())
	for _, name := range []string{"WebhookBackendDown", "WebhookCallsFailing", "WebhookConversionFailing", "WebhookOnVirtualResource"} {
		eventually(t, func(context.Context) error {
			text, err := os.ReadFile(log)
			if err == nil && !regexp.MustCompile(`alert after \d+ s: `+name+` `).Match(text) {
				err = fmt.Errorf("no %s in:\n%s", name, text)
			}
			return err
		})
	}
	testenv.Must(t, cmd.Process.Signal(syscall.SIGINT))
	if err := cmd.Wait(); err != nil {
		t.Errorf("ending the demo: %v", err)
	}
}
