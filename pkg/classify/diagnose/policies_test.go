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
