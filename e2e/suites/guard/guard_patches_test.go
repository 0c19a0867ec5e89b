package guard

import (
	"strings"
	"testing"
)

func usePrevious(t *testing.T) environment {
	t.Helper()
	return environment{previous.Use(t)}
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
