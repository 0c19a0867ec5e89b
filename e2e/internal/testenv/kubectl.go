package testenv

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
)

// Kubectl runs kubectl as an administrator and returns what it prints.
func (e *Env) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	binaries, err := programs.ControlPlane()
	Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, filepath.Join(binaries, "kubectl"), append([]string{"--kubeconfig=" + e.Plane.Kubeconfig(), "--cache-dir=" + e.Plane.Cache()}, args...)...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", command, err, output, stderr.String())
	}
	return string(output)
}
