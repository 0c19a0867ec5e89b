package inputs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestWatch: audit --watch prints what each change of the cluster adds and
// resolves, and ends with SIGTERM.
func TestWatch(t *testing.T) {
	w := stock.Use(t)
	b := w.Backend(t, "watched")
	w.Validate(t, b.Namespace, testenv.Hook(b, "/allow/watched", testenv.Rule("example.com", "watched")))
	p, err := process.Run(testenv.Binary(t), filepath.Join(t.TempDir(), "log"), "audit", "--watch", "-o", "table",
		"-n", b.Namespace, "--kubeconfig="+w.Plane.Kubeconfig())
	testenv.Must(t, err)
	t.Cleanup(p.Kill)
	prints := func(pattern string) {
		t.Helper()
		testenv.Eventually(t, func() error {
			if out := p.Output(); !regexp.MustCompile(pattern).MatchString(out) {
				return fmt.Errorf("no %s in:\n%s", pattern, out)
			}
			return nil
		})
	}
	prints(`Audited 1 webhook `)
	testenv.Must(t, b.Unready(t.Context()))
	prints(`(?m)^added +critical +no-ready-endpoints +validating +` + b.Namespace)
	testenv.Must(t, b.Ready(t.Context()))
	prints(`(?m)^resolved +critical +no-ready-endpoints +validating +` + b.Namespace)
	testenv.Must(t, p.Stop())
	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, p.Output())
	}
}
