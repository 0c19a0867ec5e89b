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

// TestAdmissionPolicies: what is found of admission policies is what the API server
// does, and it leaves once that is over.
func TestAdmissionPolicies(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	scraper := w.Scraper(t)
	t.Run("param-kind-missing", func(t *testing.T) {
		t.Parallel()
		name := w.policy(t, "params-e2e", func(p *admissionv1.ValidatingAdmissionPolicy) {
			p.Spec.ParamKind = &admissionv1.ParamKind{APIVersion: "e2e.example.com/v1", Kind: "Limit"}
		})
		w.bind(t, name, func(b *admissionv1.ValidatingAdmissionPolicyBinding) { // selects nothing, and would only record it
			b.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Audit}
			b.Spec.ParamRef = &admissionv1.ParamRef{Name: "limit", ParameterNotFoundAction: new(admissionv1.AllowAction)}
			b.Spec.MatchResources = &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"e2e": "none"}}}
		})
		testenv.Eventually(t, func() error { return w.Refused(t, name, "failed to find resource referenced by paramKind") })
		scraper.AwaitFinding("param-kind-missing", "warning", testenv.Identity("validatingpolicy", name, name))
		testenv.Must(t, w.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), name, metav1.DeleteOptions{}))
		testenv.Eventually(t, func() error {
			_, err := w.CreateConfigMap(t, name)
			return err
		})
		scraper.AwaitNoFinding("param-kind-missing", testenv.Identity("validatingpolicy", name, name))
		scraper.AwaitFinding("policy-without-effect", "info", testenv.Identity("validatingpolicy", name, name))
	})
	t.Run("policy-expression", func(t *testing.T) {
		t.Parallel()
		name := w.policy(t, "expression-e2e", func(p *admissionv1.ValidatingAdmissionPolicy) {
			p.Spec.Validations[0].Expression = `object.dat.size() < 5`
			p.Spec.MatchConstraints.ResourceRules[0].APIVersions = []string{"v1"} // types of "*" are not checked
		})
		w.bind(t, name, func(*admissionv1.ValidatingAdmissionPolicyBinding) {})
		testenv.Eventually(t, func() error { return w.Refused(t, name, "no such key: dat") })
		scraper.AwaitFinding("policy-expression", "warning", testenv.Identity("validatingpolicy", name, name))
		policies := w.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicies()
		testenv.Eventually(t, func() error {
			p, err := policies.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			p.Spec.Validations[0].Expression = `!has(object.data) || object.data.size() < 5`
			_, err = policies.Update(t.Context(), p, metav1.UpdateOptions{})
			return err
		})
		scraper.AwaitNoFinding("policy-expression", testenv.Identity("validatingpolicy", name, name))
		testenv.Eventually(t, func() error {
			_, err := w.CreateConfigMap(t, name)
			return err
		})
	})
	t.Run("resource-names-gap", func(t *testing.T) {
		t.Parallel()
		name := w.policy(t, "names-e2e", func(p *admissionv1.ValidatingAdmissionPolicy) {
			rule := &p.Spec.MatchConstraints.ResourceRules[0]
			rule.Operations, rule.ResourceNames = []admissionv1.OperationType{admissionv1.Delete}, []string{"kept"}
		})
		w.bind(t, name, func(*admissionv1.ValidatingAdmissionPolicyBinding) {})
		scraper.AwaitFinding("resource-names-gap", "info", testenv.Identity("validatingpolicy", name, name))
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
	})
}

// policy creates a ValidatingAdmissionPolicy that denies the creation of ConfigMaps in a
// namespace of its name.
func (w environment) policy(t *testing.T, name string, change func(*admissionv1.ValidatingAdmissionPolicy)) string {
	t.Helper()
	w.Namespace(t, name)
	policies := w.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	p := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}},
				ResourceRules:     []admissionv1.NamedRuleWithOperations{{RuleWithOperations: testenv.Rule("", "configmaps")}},
			},
			Validations: []admissionv1.Validation{{Expression: "false"}},
		},
	}
	change(p)
	testenv.Get(policies.Create(t.Context(), p, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = policies.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	return name
}

// bind binds the policy by a binding of its name that denies.
func (w environment) bind(t *testing.T, name string, change func(*admissionv1.ValidatingAdmissionPolicyBinding)) {
	t.Helper()
	bindings := w.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	b := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}
	change(b)
	testenv.Get(bindings.Create(t.Context(), b, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = bindings.Delete(context.Background(), name, metav1.DeleteOptions{}) })
}
