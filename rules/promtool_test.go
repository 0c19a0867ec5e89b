package rules

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"
)

// unitTests is what is read here of a file for "promtool test rules", which
// check.sh runs.
type unitTests struct {
	Tests []struct {
		PromqlExprTests []struct {
			Expr       string `json:"expr"`
			ExpSamples []any  `json:"exp_samples"`
		} `json:"promql_expr_test"`
	} `json:"tests"`
}

// firingAlert is how the tests for promtool ask for the alerts that fire.
var firingAlert = regexp.MustCompile(`^ALERTS\{alertname="(\w+)",alertstate="firing"\}$`)

// TestPromtoolCoverage holds that the tests for promtool see every signal alert
// fire, stay silent before, and resolve. TestFindingAlerts does for the others.
func TestPromtoolCoverage(t *testing.T) {
	files, err := filepath.Glob("tests/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found the tests %q, error %v", files, err)
	}
	seen := map[string]map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var tests unitTests
		if err := yaml.Unmarshal(text, &tests); err != nil {
			t.Fatal(err)
		}
		tests.note(seen)
	}
	for _, g := range Groups() {
		for _, a := range g.Alerts {
			if got := slices.Sorted(maps.Keys(seen[a.Name])); a.Labels["check"] == "" && !slices.Equal(got, []string{"fires", "resolves", "silent"}) {
				t.Errorf("the tests see %s only as %q: add what is missing to rules/tests", a.Name, got)
			}
		}
	}
}

// note records what the tests see of each alert.
func (u unitTests) note(seen map[string]map[string]bool) {
	for _, test := range u.Tests {
		fired := map[string]bool{}
		for _, at := range test.PromqlExprTests {
			found := firingAlert.FindStringSubmatch(at.Expr)
			if found == nil {
				continue
			}
			name := found[1]
			if seen[name] == nil {
				seen[name] = map[string]bool{}
			}
			switch {
			case len(at.ExpSamples) > 0:
				seen[name]["fires"] = true
			case fired[name]:
				seen[name]["resolves"] = true
			default:
				seen[name]["silent"] = true
			}
			fired[name] = len(at.ExpSamples) > 0
		}
	}
}
