package findings

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
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
	w.keeps(t, name)
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

// keeps creates a policy and its binding that refuse the deletion of ConfigMap kept in a namespace.
func (w environment) keeps(t *testing.T, name string) {
	t.Helper()
	w.Namespace(t, name)
	meta, client := metav1.ObjectMeta{Name: name}, w.Kube.AdmissionregistrationV1()
	rule := admissionv1.NamedRuleWithOperations{ResourceNames: []string{"kept"}, RuleWithOperations: testenv.Rule("", "configmaps")}
	rule.Operations = []admissionv1.OperationType{admissionv1.Delete}
	p := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}},
			ResourceRules:     []admissionv1.NamedRuleWithOperations{rule},
		},
		Validations: []admissionv1.Validation{{Expression: "false"}},
	}}
	testenv.Get(client.ValidatingAdmissionPolicies().Create(t.Context(), p, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		_ = client.ValidatingAdmissionPolicies().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	b := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}
	testenv.Get(client.ValidatingAdmissionPolicyBindings().Create(t.Context(), b, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		_ = client.ValidatingAdmissionPolicyBindings().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
}
