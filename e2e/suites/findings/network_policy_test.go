package findings

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestNetworkPolicy: a NetworkPolicy that shuts the API server out is reported as soon as
// it exists, until one of its rules, or it itself, is changed. No network plugin runs
// here, so that calls succeed all the while.
func TestNetworkPolicy(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	b := w.Backend(t, "network-policy")
	w.runs(t, b, "policy")
	h := testenv.Hook(b, "/allow/network-policy", testenv.Rule("", "configmaps"))
	w.Validate(t, b.Namespace, h)
	labels := testenv.Identity("validating", b.Namespace, h.Name)
	scraper := w.Scraper(t)
	scraper.AwaitWebhook(labels)
	scraper.AwaitNoFinding("network-policy", labels)

	policies := w.Kube.NetworkingV1().NetworkPolicies(b.Namespace)
	rules := func(ingress string) {
		t.Helper()
		_, err := policies.Patch(t.Context(), "deny", types.MergePatchType, []byte(`{"spec":{"ingress":`+ingress+`}}`), metav1.PatchOptions{})
		testenv.Must(t, err)
	}
	_, err := policies.Create(t.Context(), &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "deny"}}, metav1.CreateOptions{})
	testenv.Must(t, err)
	scraper.AwaitFinding("network-policy", "warning", labels)
	rules(`[{"from":[{"ipBlock":{"cidr":"10.0.0.0/8"}}]}]`)
	scraper.AwaitNoFinding("network-policy", labels)
	rules(`[{"from":[{"namespaceSelector":{}}]}]`)
	scraper.AwaitFinding("network-policy", "warning", labels)
	testenv.Must(t, policies.Delete(t.Context(), "deny", metav1.DeleteOptions{}))
	scraper.AwaitNoFinding("network-policy", labels)
}
