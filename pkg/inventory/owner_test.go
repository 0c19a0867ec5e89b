package inventory_test

import (
	"testing"
	"time"
)

// TestOwnPolicies: the policies that this program prints are its own by their label; a
// release of Helm outranks that.
func TestOwnPolicies(t *testing.T) {
	for metadata, want := range map[string]string{
		`{name: renamed, labels: {app.kubernetes.io/part-of: webhook-auditor}}`:                          "webhook-auditor/renamed",
		`{name: webhook-auditor-registration-warnings, annotations: {meta.helm.sh/release-name: audit}}`: "helm/audit",
		`{name: other}`: "",
	} {
		s := read(t, "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicy\nmetadata: "+metadata+"\nspec: {}\n").Snapshot(time.Time{})
		if got := s.Policies[0].Object.Owner.String(); got != want {
			t.Errorf("%s: owner %q, want %q", metadata, got, want)
		}
	}
}
