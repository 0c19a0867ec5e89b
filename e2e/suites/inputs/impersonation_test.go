package inputs

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestImpersonation: --as and --as-group ask the API server for the permissions of
// another user, as in kubectl.
func TestImpersonation(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	b := w.Backend(t, "impersonation")
	w.Validate(t, "impersonation", testenv.Hook(b, "/allow", testenv.Rule("", "configmaps")))
	if got := testenv.Command(t, "audit", "--kubeconfig="+w.Plane.Kubeconfig(), "--as=jane"); got.Code != 1 || !testenv.ContainsAll(got.Stderr, "is forbidden", "to jane") {
		t.Errorf("as a user without permissions: %+v", got)
	}
	d, got := testenv.Report(t, "--kubeconfig="+w.Plane.Kubeconfig(), "--as=jane", "--as-group=system:masters")
	if got.Code == 1 || !d.HasWebhookOf("impersonation") {
		t.Errorf("as a member of system:masters: %+v", got)
	}
}

// TestContexts: one report of two contexts of a kubeconfig, of which one has no
// permissions.
func TestContexts(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	b := w.Backend(t, "contexts")
	testenv.Must(t, b.DeleteService(t.Context()))
	w.Validate(t, "contexts", testenv.Hook(b, "/allow", testenv.Rule("", "configmaps")))
	config, err := clientcmd.LoadFromFile(w.Plane.Kubeconfig())
	testenv.Must(t, err)
	stranger := config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo].DeepCopy()
	stranger.Impersonate = "jane"
	config.AuthInfos["jane"] = stranger
	config.Contexts["jane"] = config.Contexts[config.CurrentContext].DeepCopy()
	config.Contexts["jane"].AuthInfo = "jane"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	testenv.Must(t, clientcmd.WriteToFile(*config, path))
	got := testenv.Command(t, "audit", "--kubeconfig="+path, "--context="+config.CurrentContext, "--context=jane", "-o=table", "validatingwebhookconfiguration/contexts")
	rows := strings.Split(got.Stdout, "\n")
	if got.Code != 1 || !strings.HasPrefix(rows[0], "CONTEXT ") || !strings.HasPrefix(rows[1], config.CurrentContext+" ") || !testenv.ContainsAll(rows[1], "critical", "service-missing") {
		t.Errorf("the table is %+v", got)
	}
	if !testenv.ContainsAll(got.Stderr, "context jane: ", "forbidden") {
		t.Errorf("stderr lacks the context without permissions: %s", got.Stderr)
	}
}
