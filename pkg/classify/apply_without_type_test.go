package classify

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// TestApplyWithoutTypeClaims: what narrows a policy narrows what the check says of it. The
// same policies meet an API server in e2e/suites/explain.
func TestApplyWithoutTypeClaims(t *testing.T) {
	type policy = admissionv1.MutatingAdmissionPolicySpec
	const all = "all requests to nodes/proxy"
	condition := func(expression string) func(*policy) {
		return func(p *policy) { p.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: expression}} }
	}
	for name, test := range map[string]struct {
		narrow   func(*policy)
		bound    map[string]string
		severity Severity
		want     []string
	}{
		"nothing":    {func(*policy) {}, nil, Critical, []string{all, "node drains stop and Pods"}},
		"user":       {condition(`request.userInfo.username == "bob"`), nil, Warning, []string{"those requests to", "that its matchConditions let through"}},
		"other user": {condition(`request.userInfo.username != "bob"`), nil, Critical, []string{"those requests to", "so that Pods get no tokens"}},
		"labels":     {condition(`has(object.metadata.labels)`), nil, Warning, []string{"matchConditions let through"}},
		"namespace":  {condition(`request.namespace == "shop"`), nil, Critical, []string{"in namespace shop those to", "node drains stop in namespace shop"}},
		"objectSelector": {func(p *policy) {
			p.MatchConstraints.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
		}, nil, Info, []string{"that its objectSelectors let through"}},
		"names":        {func(p *policy) { p.MatchConstraints.ResourceRules[0].ResourceNames = []string{"other"} }, nil, Info, []string{"that its rules let through"}},
		"params":       {func(p *policy) { p.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"} }, nil, Info, []string{"that its params let through"}},
		"binding":      {func(*policy) {}, map[string]string{"team": "a"}, Critical, []string{all, "in namespace shop those to", "tokens and do not start in namespace shop"}},
		"no namespace": {func(*policy) {}, map[string]string{"team": "none"}, Warning, []string{all, "that its namespaceSelectors let through"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: policy{
				MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.OperationAll}, Rule: admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
				}}}},
				Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: "Object{}"}}},
			}}
			test.narrow(&p.Spec)
			b := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "p"}}
			if p.Spec.ParamKind != nil {
				b.Spec.ParamRef = &admissionv1.ParamRef{Name: "x", Namespace: "shop", ParameterNotFoundAction: new(admissionv1.AllowAction)}
			}
			if test.bound != nil {
				b.Spec.MatchResources = &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: test.bound}}
			}
			o := inventory.Objects{
				MutatingPolicies: []*admissionv1.MutatingAdmissionPolicy{p}, MutatingPolicyBindings: []*admissionv1.MutatingAdmissionPolicyBinding{b},
				Namespaces: []*metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "a"}}}, {ObjectMeta: metav1.ObjectMeta{Name: "other"}}},
			}
			o.NamespacesKnown = true
			f := findingOf(evaluate(t, DefaultPolicy(), o.Snapshot(taken)), applyWithoutType)
			expect.Equal(t, test.severity, f.Severity)
			expect.Contains(t, f.Message, test.want...)
		})
	}
}
