package classify

import (
	"cmp"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// TestFailingExpressions: an expression that fails whatever the object holds is found
// wherever it stands, and no other. The same policies meet an API server in
// e2e/suites/explain.
func TestFailingExpressions(t *testing.T) {
	validates := func(expression string) *admissionv1.ValidatingAdmissionPolicy {
		p := kubetest.Policy("p", kubetest.Rule("", "configmaps", admissionv1.Create))
		p.Spec.Validations = []admissionv1.Validation{{Expression: expression}}
		return p
	}
	for name, test := range map[string]struct {
		expression, variable, condition string
		want                            string // "" for no finding
		severity                        Severity
	}{
		"subResource":       {`request.subResource == "x"`, "", "", `for every CREATE of configmaps that it is evaluated for: validations[0] does (no such key: subResource), which refuses the request (failurePolicy Fail)`, Warning},
		"division":          {`1/0 == 1`, "", "", "validations[0] does (division by zero)", Warning},
		"oldObject":         {`oldObject.metadata.name == "x"`, "", "", "validations[0] does (", Warning},
		"variable":          {`variables.v == "x"`, `request.subResource`, "", "validations[0] does (no such key: subResource)", Warning},
		"variable unread":   {`true`, `request.subResource`, "", "", Info},
		"variable unknown":  {`variables.v == "x"`, `object.data.x`, "", "", Info},
		"asks first":        {`!has(request.subResource)`, "", "", "", Info},
		"namespace":         {`namespaceObject.metadata.name == "x"`, "", "", "", Info},
		"authorizer":        {`authorizer.requestResource.check("create").allowed()`, "", "", "", Info},
		"may be skipped":    {`1/0 == 1`, "", `request.userInfo.username == "bob"`, "unless another matchCondition is false", Info},
		"skipped":           {`1/0 == 1`, "", `request.operation == "DELETE"`, "", Info},
		"audit annotation":  {"", `request.subResource`, "", "auditAnnotations[0] does (no such key: subResource), which refuses the request", Warning},
		"failing condition": {`true`, "", `request.subResource == "x"`, `matchCondition "c" does`, Warning},
	} {
		t.Run(name, func(t *testing.T) {
			p := validates(cmp.Or(test.expression, "true"))
			if test.variable != "" {
				p.Spec.Variables = []admissionv1.Variable{{Name: "v", Expression: test.variable}}
			}
			if test.condition != "" {
				p.Spec.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: test.condition}}
			}
			b := kubetest.Binding("p")
			b.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Deny}
			if test.expression == "" { // refuses whatever the actions are
				p.Spec.AuditAnnotations = []admissionv1.AuditAnnotation{{Key: "k", ValueExpression: "variables.v"}}
				b.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Audit}
			}
			o := inventory.Objects{ValidatingPolicies: []*admissionv1.ValidatingAdmissionPolicy{p}, ValidatingPolicyBindings: []*admissionv1.ValidatingAdmissionPolicyBinding{b}}
			checkFailing(t, o, test.want, test.severity)
		})
	}
	for expression, want := range map[string]string{
		`[JSONPatch{op: "add", path: "/metadata/labels/x", value: request.subResource}]`:             "mutations[0].jsonPatch does (no such key: subResource)",
		`[JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("a/b"), value: "x"}]`: "",
		`has(object.data) ? [JSONPatch{op: "remove", path: "/data"}] : []`:                           "",
	} {
		p := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionv1.MutatingAdmissionPolicySpec{
			MatchConstraints: validates("true").Spec.MatchConstraints,
			Mutations:        []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: expression}}},
		}}
		b := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "p"}}
		checkFailing(t, inventory.Objects{MutatingPolicies: []*admissionv1.MutatingAdmissionPolicy{p}, MutatingPolicyBindings: []*admissionv1.MutatingAdmissionPolicyBinding{b}}, want, Warning)
	}
}

func checkFailing(t *testing.T, o inventory.Objects, want string, severity Severity) {
	t.Helper()
	f := findingOf(evaluate(t, DefaultPolicy(), o.Snapshot(taken)), policyExpression)
	if !strings.Contains(f.Message, want) || (f.Message == "") != (want == "") || want != "" && f.Severity != severity {
		t.Errorf("%s %q, want %s %q", f.Severity, f.Message, severity, want)
	}
}
