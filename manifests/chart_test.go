package manifests

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	text, err := os.ReadFile("chart/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var values schema
	if err := json.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, key := range classify.PolicyKeys {
		want = append(want, key.Path)
	}
	slices.Sort(want)
	got := values.Properties["policy"].keys("")
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values.schema.json: -Policy +schema\n%s", diff)
	}
}
