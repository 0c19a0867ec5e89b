package classify

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

func notIn(key string, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: values}
}

const (
	levelLabel = "openshift.io/run-level"
	nameLabel  = "kubernetes.io/metadata.name"
)

func TestRunLevelExclusions(t *testing.T) {
	s := &inventory.Snapshot{Namespaces: map[string]inventory.Namespace{
		"kube-system": {Name: "kube-system"}, "kube-public": {Name: "kube-public"}, "team": {Name: "team"},
	}}
	for name, test := range map[string]struct {
		label string
		named []string
		want  []metav1.LabelSelectorRequirement
	}{
		"label":          {levelLabel, nil, []metav1.LabelSelectorRequirement{notIn(levelLabel, "0")}},
		"names, unknown": {"", []string{"later", "kube-system"}, []metav1.LabelSelectorRequirement{notIn(nameLabel, "kube-system", "later")}},
		"glob":           {levelLabel, []string{"kube-*", "kube-system"}, []metav1.LabelSelectorRequirement{notIn(levelLabel, "0"), notIn(nameLabel, "kube-public", "kube-system")}},
		"glob, nothing":  {levelLabel, []string{"no-*"}, []metav1.LabelSelectorRequirement{notIn(levelLabel, "0")}},
		"nothing":        {"", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := DefaultPolicy()
			p.RunLevelLabel, p.RunLevelZero = test.label, test.named
			expect.Equal(t, test.want, p.RunLevelExclusions(s))
		})
	}
}

func TestLackedExclusions(t *testing.T) {
	other := metav1.LabelSelectorRequirement{Key: "team", Operator: metav1.LabelSelectorOpExists}
	for name, test := range map[string]struct {
		selector    metav1.LabelSelector
		annotations map[string]string
		platform    bool
		want        []metav1.LabelSelectorRequirement
	}{
		"none":        {want: []metav1.LabelSelectorRequirement{notIn(levelLabel, "0"), notIn(nameLabel, "kube-system")}},
		"other":       {selector: selector(other), want: []metav1.LabelSelectorRequirement{notIn(levelLabel, "0"), notIn(nameLabel, "kube-system")}},
		"one of them": {selector: selector(notIn(levelLabel, "1", "0")), want: []metav1.LabelSelectorRequirement{notIn(nameLabel, "kube-system")}},
		"both":        {selector: selector(notIn(levelLabel, "0"), notIn(nameLabel, "a", "kube-system")), want: []metav1.LabelSelectorRequirement{}},
		"opted in":    {annotations: map[string]string{OptInAnnotation: "true"}},
		"platform":    {platform: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := DefaultPolicy()
			p.RunLevelZero = []string{"kube-system"}
			w := &inventory.Webhook{
				Registration: inventory.Registration{
					Ref:            inventory.Ref{Type: inventory.Validating},
					Object:         inventory.Object{Annotations: test.annotations},
					MatchResources: inventory.MatchResources{NamespaceSelector: inventory.Selector{Raw: &test.selector}},
				},
			}
			have := (&Profile{Facts: &Facts{Webhook: w, Platform: test.platform}, Snapshot: &inventory.Snapshot{}, Policy: &p}).lackedExclusions()
			expect.Equal(t, test.want, have)
		})
	}
}

func selector(all ...metav1.LabelSelectorRequirement) metav1.LabelSelector {
	return metav1.LabelSelector{MatchExpressions: all}
}

// TestGuardMissing: servers of 1.36 serve the API of which the guard is made, older ones do
// not.
func TestGuardMissing(t *testing.T) {
	for minor, missing := range map[int]bool{35: true, 36: false} {
		s := &inventory.Snapshot{Served: inventory.Builtins(inventory.Version{Major: 1, Minor: minor}, false)}
		if text := guardMissing(s); (text != "") != missing {
			t.Errorf("1.%d: %q", minor, text)
		}
	}
}
