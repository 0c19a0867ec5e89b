package manifest

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

//go:embed testdata/policies.yaml
var policies string

// TestPolicies reads policies and bindings in every version that was served, in a list
// as well as alone.
func TestPolicies(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1", "v1alpha1"} {
		s := readString(t, strings.ReplaceAll(policies, "VERSION", version)).Snapshot(time.Time{})
		var got []string
		for _, p := range s.Policies {
			got = append(got, fmt.Sprintf("%s %s %s %s reinvoked %q by %s, names %v, excluded %v, in %s", p.Type, p.Name, p.FailurePolicy, p.MatchPolicy, p.Reinvocation, p.Object.Owner, p.ResourceNames, p.Excluded.ResourceNames, p.NamespaceSelector))
			for _, b := range p.Bindings {
				got = append(got, fmt.Sprintf("%s denies %v", b.Object.Name, b.Denies()))
			}
		}
		for _, b := range s.Unbound {
			got = append(got, fmt.Sprintf("%s of %s %s", b.Object.Name, b.Policy.Type, b.Policy.Name))
		}
		want := []string{
			`mutatingpolicy labels Ignore Equivalent reinvoked "IfNeeded" by , names [], excluded [], in team=a`,
			`validatingpolicy limits Fail Equivalent reinvoked "" by olm/shop.v1, names [[] [web]], excluded [[job]], in <none>`,
			"limits-a denies true", "limits-b denies false",
			"nowhere of mutatingpolicy gone",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", version, diff)
		}
	}
}
