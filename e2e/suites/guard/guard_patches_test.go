package guard

import (
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/apply"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

func usePrevious(t *testing.T) environment {
	t.Helper()
	return environment{previous.Use(t)}
}

// TestGuardIsRefusedWhole: a server without the API takes nothing of what the
// overlay holds, and says why; the audit says so too. The warnings work there.
func TestGuardIsRefusedWhole(t *testing.T) {
	t.Parallel()
	w := usePrevious(t)
	for _, o := range overlay(t, "../../../manifests/run-level-guard") {
		if err := w.apply(t.Context(), o); err == nil || !strings.Contains(err.Error(), `no matches for kind "`+o.GetKind()+`"`) {
			t.Errorf("applying %s: want a server that does not know it, have %v", o.GetKind(), err)
		}
	}
	warnings := overlay(t, "../../../manifests/run-level-guard/warnings")
	testenv.Must(t, w.apply(t.Context(), strict(warnings)...))
	t.Cleanup(func() { w.uninstallObjects(t, warnings) })
	testenv.Eventually(t, func() error {
		return w.wantWarning(t, "unapproved webhooks on security-sensitive resources: secrets.guard.example.com;")
	})
}

func TestAuditTellsWhereTheGuardIsNotAvailable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		use  func(*testing.T) environment
		want bool
	}{"older": {usePrevious, true}, "stock": {useUnguarded, false}} {
		t.Run(name, func(t *testing.T) {
			w := test.use(t)
			w.namespace(t, "openshift-kube-apiserver", map[string]string{runLevel: "0"})
			w.register(t, configuration("ValidatingWebhookConfiguration", "guard-audited", covering("pods")))
			for _, f := range foundIn(t, "--kubeconfig", w.Plane.Kubeconfig()) {
				if f.Check == "run-level-zero" {
					if have := strings.Contains(f.Fix, "the run-level guard, which does so for all webhooks, is not available"); have != test.want {
						t.Errorf("says that the guard is not available: %t, want %t: %s", have, test.want, f.Fix)
					}
					return
				}
			}
			t.Error("no finding run-level-zero")
		})
	}
}

// overlay reads what a kustomization brings together.
func overlay(t *testing.T, dir string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	files, _, err := unstructured.NestedStringSlice(fileObjects(t, dir+"/kustomization.yaml")[0].Object, "resources")
	testenv.Must(t, err)
	for _, file := range files {
		out = append(out, fileObjects(t, dir+"/"+file)...)
	}
	if len(out) == 0 {
		t.Fatalf("%s holds nothing", dir)
	}
	return slices.Clip(out)
}

func fileObjects(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	b, err := os.ReadFile(file)
	testenv.Must(t, err)
	out, err := apply.Objects(b)
	testenv.Must(t, err)
	return out
}
