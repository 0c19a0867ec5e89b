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
