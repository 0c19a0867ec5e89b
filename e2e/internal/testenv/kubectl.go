package testenv

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
)

// Kubectl runs kubectl as an administrator and returns what it prints.
func (e *Env) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	return Get(e.TryKubectl(t.Context(), args...))(t)
}

// TryKubectl is Kubectl where it may fail: the error has what it prints.
func (e *Env) TryKubectl(ctx context.Context, args ...string) (string, error) {
	binaries, err := programs.ControlPlane()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, MaxWait)
	defer cancel()
	command := exec.CommandContext(ctx, filepath.Join(binaries, "kubectl"), append([]string{"--kubeconfig=" + e.Plane.Kubeconfig(), "--cache-dir=" + e.Plane.Cache()}, args...)...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", command, err, output, stderr.String())
	}
	return string(output), nil
}
