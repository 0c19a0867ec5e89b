package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestDemo runs the demo as "make demo" does and looks for each broken webhook,
// and for no healthy one, in the report.
func TestDemo(t *testing.T) {
	t.Parallel()
	path, err := binary()
	must(t, err)
	demo := filepath.Join(t.TempDir(), "demo")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-o", demo, "./demo").CombinedOutput()
	if err != nil {
		t.Fatalf("building the demo: %v\n%s", err, output)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, demo, "bin", path)
	cmd.Env = append(os.Environ(), "DEMO_ONCE=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("running the demo: %v\n%s", err, &out)
	}
	_, report, _ := strings.Cut(out.String(), "webhook-auditor audit")
	for name, check := range map[string]string{
		"configmaps.legacy.example.com":          "service-missing",
		"ingresses.gateway.example.com":          "service-port-missing",
		"jobs.scheduler.example.com":             "no-ready-endpoints",
		"backups.storage.example.com":            "service-missing",
		"cronjobs.quota.example.com":             "ca-bundle-invalid",
		"pods.guard.example.com":                 "bootstrap-deadlock",
		"bindings.placement.example.com":         "virtual-resource",
		"tokenreviews.login.example.com":         "dead-rule",
		"secrets.injector.example.com":           "sensitive-resource",
		"pods.scanner.example.com":               "critical-resource",
		"statefulsets.demo-operator.example.com": "core-resource",
	} {
		if !lineWith(report, name, check) {
			t.Errorf("no line tells %s about %s", check, name)
		}
	}
	for _, healthy := range []string{"policy.example.com", "secrets.validator.example.com"} {
		if strings.Contains(report, healthy) {
			t.Errorf("the healthy %s is reported", healthy)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

func lineWith(text string, words ...string) bool {
	for line := range strings.Lines(text) {
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			return true
		}
	}
	return false
}
