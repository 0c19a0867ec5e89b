package manifests

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// schema is what is read of a JSON Schema.
type schema struct {
	Properties map[string]schema
	Items      *schema
}

// keys are the properties, and those of the objects in lists.
func (s schema) keys(above string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		out = append(out, above+name)
		if items := s.Properties[name].Items; items != nil {
			out = append(out, items.keys(above+name+"[].")...)
		}
	}
	return out
}

// TestChartKnowsThePolicy: the schema of the chart's values has the keys of the
// Policy, so that a typing error is refused before a Pod reads it.
func TestChartKnowsThePolicy(t *testing.T) {
	text := must.Get(os.ReadFile("chart/values.schema.json"))(t)
	var values schema
	must.Succeed(t, json.Unmarshal(text, &values))
	var want []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(.+?)` \\|").FindAllStringSubmatch(classify.PolicyDocument(), -1) {
		want = append(want, row[1])
	}
	slices.Sort(want)
	got := values.Properties["policy"].keys("")
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values.schema.json: -Policy +schema\n%s", diff)
	}
}

// TestReplicasOfARolloutAreApart: what keeps replicas apart counts those of the same
// rollout alone. Pods that leave would push the new ones onto one node.
func TestReplicasOfARolloutAreApart(t *testing.T) {
	text := must.Get(os.ReadFile("base/deployment.yaml"))(t)
	var d appsv1.Deployment
	must.Succeed(t, yaml.UnmarshalStrict(text, &d))
	spec, want := d.Spec.Template.Spec, []string{appsv1.DefaultDeploymentUniqueLabelKey}
	for _, term := range spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		if diff := cmp.Diff(want, term.PodAffinityTerm.MatchLabelKeys); diff != "" {
			t.Errorf("affinity: -want +got\n%s", diff)
		}
	}
	for _, constraint := range spec.TopologySpreadConstraints {
		if diff := cmp.Diff(want, constraint.MatchLabelKeys); diff != "" {
			t.Errorf("topology: -want +got\n%s", diff)
		}
	}
}
