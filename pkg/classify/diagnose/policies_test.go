package diagnose

import (
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// TestPolicyErrors are errors as kube-apiserver 1.37 printed them: each is read as one.
func TestPolicyErrors(t *testing.T) {
	const denied = `The configmaps "x" is invalid: : ValidatingAdmissionPolicy 'limits' with binding 'limits-b' denied request: `
	const whole = `configmaps "x" is forbidden: ValidatingAdmissionPolicy 'limits' denied request: `
	for text, want := range map[string]struct {
		cause   Cause
		mutates bool
		binding string
	}{
		denied + `must have a team`:                                                                                                                                    {causePolicyDenied, false, "limits-b"},
		denied + `failed expression: has(object.metadata.labels)`:                                                                                                      {causePolicyDenied, false, "limits-b"},
		denied + `expression 'object.spec.x' resulted in error: no such key: x`:                                                                                        {causePolicyExpression, false, "limits-b"},
		denied + `expression 'a.all(x, x)' resulted in error: operation cancelled: actual cost limit exceeded`:                                                         {causePolicyExpression, false, "limits-b"},
		denied + "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction":                                                 {"params-missing", false, "limits-b"},
		denied + "failed to configure binding: paramKind kind `&ParamKind{APIVersion:g/v,Kind:K,}` not yet synced to use for admission":                                {"params-unsynced", false, "limits-b"},
		denied + `failed to configure binding: cannot use namespaced paramRef in policy binding that matches cluster-scoped resources`:                                 {"param-namespace", false, "limits-b"},
		whole + `failed to configure policy: failed to find resource referenced by paramKind: 'g/v, Kind=K'`:                                                           {"param-kind", false, ""},
		`Warning: Validation failed for ValidatingAdmissionPolicy 'limits' with binding 'limits-b': must have a team`:                                                  {causePolicyWarned, false, "limits-b"},
		`configmaps "x" is forbidden: policy 'limits' with binding 'limits-b' denied request: expression 'E' resulted in error: no such key: x`:                        {causePolicyExpression, true, "limits-b"},
		`configmaps "x" is forbidden: policy 'limits' with binding 'limits-b' denied request: error applying patch: invalid ApplyConfiguration: may not mutate: .spec`: {"policy-failed", true, "limits-b"},
		`configmaps "x" is forbidden: policy "limits" denied request: failed to configure policy: failed to find resource referenced by paramKind: 'g/v, Kind=K'`:      {"param-kind", true, ""},
		// A warning, and the annotation of audit events as JSON, within an event and as a tool prints it.
		`Warning: Validation failed for ValidatingAdmissionPolicy 'limits' with binding 'limits-b': expression 'object.spec.x == 1' resulted in error: no such key: x`:                                                                                   {causePolicyExpressionWarned, false, "limits-b"},
		`[{"message":"expression 'object.spec.x == 1' resulted in error: no such key: x","policy":"limits","binding":"limits-b","expressionIndex":0,"validationActions":["Warn","Audit"]}]`:                                                              {causePolicyExpressionWarned, false, "limits-b"},
		`[{message: expression 'object.spec.x == 1' resulted in error: no such key, policy: limits, validationActions: [Warn, Audit]}]`:                                                                                                                  {causePolicyExpressionWarned, false, ""},
		`{"kind":"Event","responseStatus":{"code":201},"annotations":{"validation.policy.admission.k8s.io/validation_failure":"[{\"message\":\"must have a team\",\"policy\":\"limits\",\"binding\":\"limits-b\",\"validationActions\":[\"Audit\"]}]"}}`: {causePolicyWarned, false, "limits-b"},
		`validation.policy.admission.k8s.io/validation_failure: '[{"message":"must have a team, a policy: of ours","policy":"limits","binding":"limits-b","expressionIndex":0,"validationActions":["Audit"]}]'`:                                          {causePolicyWarned, false, "limits-b"},
		`validation_failure="[{\"message\":\"failed expression: has(object.spec)\",\"policy\":\"limits\",\"binding\":\"limits-b\",\"expressionIndex\":0,\"validationActions\":[\"Deny\",\"Audit\"]}]"`:                                                   {causePolicyDenied, false, "limits-b"},
	} {
		got := Parse(text)
		if len(got) != 1 || got[0].Cause != want.cause || got[0].Policy.Name != "limits" || got[0].Binding != want.binding || (got[0].Policy.Type == inventory.MutatingPolicy) != want.mutates || got[0].Webhook != "" {
			t.Errorf("%s\nis read as %+v, want %+v", text, got, want)
		}
		if advice := advices[want.cause]; advice.Meaning == "" || advice.Fix == "" {
			t.Errorf("%s means nothing", want.cause)
		}
	}
	if got := Parse(`Error from server (Forbidden): pods "x" is forbidden: not yet ready to handle request`); len(got) != 1 || got[0].Cause != "not-ready" {
		t.Errorf("an API server that is not ready is read as %+v", got)
	}
}

// TestPolicyAnswers: what the input has on the policy of an error.
func TestPolicyAnswers(t *testing.T) {
	s := inventory.Objects{
		ValidatingPolicies: []*admissionv1.ValidatingAdmissionPolicy{
			{ObjectMeta: metav1.ObjectMeta{Name: "limits"}},
			{ObjectMeta: metav1.ObjectMeta{Name: "quota-a"}},
			{ObjectMeta: metav1.ObjectMeta{Name: "quota-b"}},
		},
		ValidatingPolicyBindings: []*admissionv1.ValidatingAdmissionPolicyBinding{
			{ObjectMeta: metav1.ObjectMeta{Name: "limits-quota"}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "quota-a"}},
			{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "limits"}},
			{ObjectMeta: metav1.ObjectMeta{Name: "limits-b"}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "limits"}},
		},
	}.Snapshot(time.Unix(1, 0))
	r := &classify.Report{Snapshot: s}
	for text, want := range map[string]struct{ policy, note, removed string }{
		"'limits' with binding 'limits-b'":             {"limits", "", "limits-b"},
		"'limits'":                                     {"limits", "", "limits-b other"}, // the policy is wrong by itself
		"'lim…' with binding 'limits-b'":               {"limits", "", "limits-b"},
		"'limits' with binding 'lim…'":                 {"limits", "", "limits-b"}, // limits-quota binds another policy
		"'limits' with binding '…'":                    {"limits", "", ""},
		"'limits' with binding 'gone'":                 {"limits", "", ""},
		"'quota…' with binding '…quota'":               {"", "2 policies are registered that it may be about: quota-a and quota-b.", ""},
		"'quota-a' with binding 'limits-...'":          {"quota-a", "", "limits-quota"},
		"'gone' with binding 'limits-b'":               {"", "The input has no policy gone", ""},
		"'boot.static.k8s.io' with binding 'limits-b'": {"", "in a manifest on the API server's own disk", ""},
	} {
		found := Parse("ValidatingAdmissionPolicy " + text + " denied request: no")
		if len(found) != 1 {
			t.Fatalf("%s: %d errors", text, len(found))
		}
		a := Explain(r, found[0])
		policy := ""
		if a.AdmissionPolicy != nil {
			policy = a.AdmissionPolicy.Name
		}
		if notes := strings.Join(a.Notes, " "); policy != want.policy || !strings.Contains(notes, want.note) {
			t.Errorf("%s: policy %q, notes %q, want %+v", text, policy, notes, want)
		}
		for _, b := range []string{"limits-b", "limits-quota", "other"} {
			_, deleted, _ := strings.Cut(a.Fix, " && kubectl delete")
			if slices.Contains(strings.Fields(want.removed), b) != strings.Contains(deleted, b) {
				t.Errorf("%s: %q, want %q deleted", text, a.Fix, want.removed)
			}
		}
	}
}
