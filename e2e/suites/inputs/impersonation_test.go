package inputs

import (
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestImpersonation: --as and --as-group ask the API server for the permissions of
// another user, as in kubectl.
func TestImpersonation(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	b := w.Backend(t, "impersonation")
	w.Validate(t, "impersonation", testenv.Hook(b, "/allow", testenv.Rule("", "configmaps")))
	if got := testenv.Command(t, "audit", "--kubeconfig="+w.Plane.Kubeconfig(), "--as=jane"); got.Code != 1 || !testenv.ContainsAll(got.Stderr, "is forbidden", "to jane", "the ClusterRole webhook-auditor grants") {
		t.Errorf("as a user without permissions: %+v", got)
	}
	d, got := testenv.Report(t, "--kubeconfig="+w.Plane.Kubeconfig(), "--as=jane", "--as-group=system:masters")
	if got.Code == 1 || !d.HasWebhookOf("impersonation") {
		t.Errorf("as a member of system:masters: %+v", got)
	}
}
