package findings

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestAdmissionPolicies: a finding about an admission policy comes, says what the API server
// does, and leaves. What other checks claim, TestClaimsHold holds to the API server.
func TestAdmissionPolicies(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	scraper := w.Scraper(t)
	const name = "names-e2e"
	identity := testenv.Identity("validatingpolicy", name, name)
	w.Namespace(t, name)
	w.Install(t, []byte(strings.ReplaceAll(keeping, "NAME", name)))
	t.Cleanup(func() {
		testenv.Get(w.TryKubectl(context.Background(), "delete", "validatingadmissionpolicy", name))(t)
	})
	scraper.AwaitFinding("resource-names-gap", "info", identity)
	maps := w.Kube.CoreV1().ConfigMaps(name)
	testenv.Get(maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{}))(t)
	testenv.Eventually(t, func() error {
		err := maps.Delete(t.Context(), "kept", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), name) {
			return fmt.Errorf("the policy does not refuse the deletion: %v", err)
		}
		return nil
	})
	testenv.Must(t, maps.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=kept"}))
	if _, err := maps.Get(t.Context(), "kept", metav1.GetOptions{}); err == nil {
		t.Error("the object is still there after its collection was deleted")
	}
	testenv.Must(t, w.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), name, metav1.DeleteOptions{}))
	scraper.AwaitNoFinding("resource-names-gap", identity)
	scraper.AwaitFinding("policy-without-effect", "info", identity)
}

// keeping refuses the deletion of ConfigMap kept in the namespace NAME.
//
//go:embed testdata/policies.yaml
var keeping string
