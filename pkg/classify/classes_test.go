package classify

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// TestKindsAreServed: each kind of a class is that of a resource, and each name is one.
func TestKindsAreServed(t *testing.T) {
	served := inventory.Builtins(inventory.Newest, true)
	for class, kinds := range classKinds {
		for kind := range strings.FieldsSeq(kinds) {
			if !slices.ContainsFunc(served, func(s inventory.Served) bool { return s.Kind == kind }) {
				t.Errorf("%s: no resource is of kind %s", class, kind)
			}
		}
	}
	for namespace, names := range controlPlaneParts {
		for _, r := range resourcesNamed(names) {
			if !slices.ContainsFunc(served, func(s inventory.Served) bool { return s.Resource == r }) {
				t.Errorf("in %q: no resource is named %s", namespace, r)
			}
		}
	}
}

// TestReviewsAreVirtual: every kind that ends in Review is, and no purpose is
// missing for one.
func TestReviewsAreVirtual(t *testing.T) {
	for _, s := range inventory.Builtins(inventory.Newest, true) {
		if strings.HasSuffix(s.Kind, "Review") && !slices.Contains(defaultClasses()[ClassVirtual], s.Resource) {
			t.Errorf("%s is not virtual", s.Resource)
		}
	}
}

// TestMembersAreMatched: a rule that names a member matches it as one of its
// class, unless the API server calls no webhook for it.
func TestMembersAreMatched(t *testing.T) {
	for class, members := range defaultClasses() {
		for _, r := range members {
			s := files(t, registering(fmt.Sprintf(`{operations: ["*"], apiGroups: [%q], apiVersions: ["*"], resources: [%q]}`, r.Group, r.Path()))+openshiftCRD)
			matched := slices.Contains(evaluate(t, DefaultPolicy(), s).Profiles[0].ByClass[class], r)
			if never := slices.Contains(admission.NeverSent(s, inventory.Ref{Type: inventory.Validating}), r.Parent()); matched == never {
				t.Errorf("%s: %s: matched: %t, want %t", class, r, matched, !never)
			}
		}
	}
}

// openshiftCRD shows that the input is of OpenShift.
const openshiftCRD = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterversions.config.openshift.io}
spec: {group: config.openshift.io, scope: Cluster, names: {plural: clusterversions, kind: ClusterVersion}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}
`
