package inputs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestWatch: audit --watch prints what each change of the cluster adds and
// resolves, and ends with SIGTERM. What run finds follows the same changes.
func TestWatch(t *testing.T) {
	w := stock.Use(t)
	b := w.Backend(t, "watched")
	hook := testenv.Hook(b, "/allow/watched", testenv.Rule("", "configmaps"))
	w.Validate(t, b.Namespace, hook)
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
	prints(`· 1 webhook ·`)
	testenv.Must(t, b.Unready(t.Context()))
	prints(`(?m)^added +critical +no-ready-endpoints +` + b.Namespace)
	testenv.Must(t, b.Ready(t.Context()))
	prints(`(?m)^resolved +critical +no-ready-endpoints +` + b.Namespace)
	a := testenv.NewScraper(t, w.Run(t))
	labels := testenv.Identity("validating", b.Namespace, hook.Name)
	a.Await("the webhook", metrics.Equals(testenv.BackendReady, labels, 1))
	// A label that no webhook selects by, but the Policy reads.
	level := func(value string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"openshift.io/run-level":%s}}}`, value)
		_, err := w.Kube.CoreV1().Namespaces().Patch(t.Context(), b.Namespace, types.MergePatchType, patch, metav1.PatchOptions{})
		testenv.Must(t, err)
	}
	level(`"0"`)
	prints(`(?m)^added +info +run-level-zero +` + b.Namespace)
	a.AwaitFinding("run-level-zero", "info", labels)
	level("null")
	prints(`(?m)^resolved +info +run-level-zero +` + b.Namespace)
	a.AwaitNoFinding("run-level-zero", labels)
	testenv.Must(t, p.Stop())
	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, p.Output())
	}
}
