package manifests

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// profile is that of a webhook which selects by the expressions.
func profile(object inventory.Object, name string, expressions ...metav1.LabelSelectorRequirement) classify.Profile {
	policy := classify.DefaultPolicy()
	return classify.Profile{
		Facts: &classify.Facts{Webhook: &inventory.Webhook{
			Registration: inventory.Registration{
				Ref:            inventory.Ref{Type: inventory.Validating, Configuration: object.Name, Name: name},
				Object:         object,
				MatchResources: inventory.MatchResources{NamespaceSelector: inventory.Selector{Raw: &metav1.LabelSelector{MatchExpressions: expressions}}},
			},
		}},
		Snapshot: &inventory.Snapshot{},
		Policy:   &policy,
	}
}

func TestRunLevelPatches(t *testing.T) {
	team := metav1.LabelSelectorRequirement{Key: "team", Operator: metav1.LabelSelectorOpExists}
	done := metav1.LabelSelectorRequirement{Key: "openshift.io/run-level", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"0"}}
	one := inventory.Object{Kind: "ValidatingWebhookConfiguration", Name: "one"}
	two := inventory.Object{Kind: "MutatingWebhookConfiguration", Name: "two", Owner: inventory.Owner{Tool: "helm", Name: "policy"}}
	have, err := RunLevelPatches([]classify.Profile{
		profile(one, "a.example.com"),
		profile(one, "b.example.com", done),
		profile(one, "c.example.com", team),
		profile(inventory.Object{Kind: "ValidatingWebhookConfiguration", Name: "none"}, "d.example.com", done),
		profile(two, "e.example.com"),
	}, func(o inventory.Object) string {
		if o.Name == "one" {
			return ""
		}
		return `{"apiVersion":"admissionregistration.k8s.io/v1beta1","kind":"MutatingWebhookConfiguration","metadata":{"name":"two","labels":{"app":"x"}},
			"webhooks":[{"name":"z.example.com","timeoutSeconds":3},{"name":"e.example.com","timeoutSeconds":5}]}`
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantPatches, string(have)); diff != "" {
		t.Errorf("-want +have:\n%s", diff)
	}
}

// wantPatches: what was never applied gets nothing but selectors; what was,
// keeps all that was applied.
const wantPatches = `# Keeps webhooks off run level 0 that were registered before the run-level guard:
# webhook-auditor print run-level-patches | kubectl apply -f -
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: one
webhooks:
- name: a.example.com
  namespaceSelector:
    matchExpressions:
    - key: openshift.io/run-level
      operator: NotIn
      values:
      - "0"
- name: c.example.com
  namespaceSelector:
    matchExpressions:
    - key: team
      operator: Exists
    - key: openshift.io/run-level
      operator: NotIn
      values:
      - "0"
---
# Without the guard, helm/policy takes this out again: change it there.
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  labels:
    app: x
  name: two
webhooks:
- name: z.example.com
  timeoutSeconds: 3
- name: e.example.com
  namespaceSelector:
    matchExpressions:
    - key: openshift.io/run-level
      operator: NotIn
      values:
      - "0"
  timeoutSeconds: 5
`

func TestRunLevelPatchesOfNothing(t *testing.T) {
	have, err := RunLevelPatches(nil, func(inventory.Object) string { return "" })
	if err != nil || len(have) > 0 {
		t.Errorf("have %q, %v", have, err)
	}
}

func TestRunLevelPatchesOfGarbage(t *testing.T) {
	object := inventory.Object{Kind: "ValidatingWebhookConfiguration", Name: "one"}
	_, err := RunLevelPatches([]classify.Profile{profile(object, "a.example.com")}, func(inventory.Object) string { return "{" })
	if err == nil || !strings.Contains(err.Error(), "one") || !strings.Contains(err.Error(), LastApplied) {
		t.Errorf("want an error that names the object and the annotation, have %v", err)
	}
}
