package rules

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// unitTests is what is read here of a file for "promtool test rules", which
// check.sh runs.
type unitTests struct {
	Tests []unitTest `json:"tests"`
}

type unitTest struct {
	Interval model.Duration `json:"interval"`
	Series   []struct {
		Series string `json:"series"`
		Values string `json:"values"`
	} `json:"input_series"`
	PromqlExprTests []struct {
		Expr       string         `json:"expr"`
		EvalTime   model.Duration `json:"eval_time"`
		ExpSamples []any          `json:"exp_samples"`
	} `json:"promql_expr_test"`
}

// firingAlert is how the tests for promtool ask for the alerts that fire.
var firingAlert = regexp.MustCompile(`^ALERTS\{alertname="(\w+)",alertstate="firing"\}$`)

// TestPromtoolCoverage holds that the tests for promtool see every signal alert
// fire, stay silent before, and resolve. TestFindingAlerts does for the others.
func TestPromtoolCoverage(t *testing.T) {
	seen := map[string]map[string]bool{}
	for _, test := range allUnitTests(t) {
		test.note(seen)
	}
	for _, g := range Groups() {
		for _, a := range g.Alerts {
			if got := slices.Sorted(maps.Keys(seen[a.Name])); len(a.Checks) == 0 && !slices.Equal(got, []string{"fires", "resolves", "silent"}) {
				t.Errorf("the tests see %s only as %q: add what is missing to rules/tests", a.Name, got)
			}
		}
	}
}

// allUnitTests are those of all files.
func allUnitTests(t *testing.T) []unitTest {
	t.Helper()
	files, err := filepath.Glob("tests/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found the tests %q, error %v", files, err)
	}
	var out []unitTest
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		var read unitTests
		must.Succeed(t, yaml.Unmarshal(text, &read))
		out = append(out, read.Tests...)
	}
	return out
}

// note records what the test sees of each alert.
func (u unitTest) note(seen map[string]map[string]bool) {
	fired := map[string]bool{}
	for _, at := range u.PromqlExprTests {
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

// triggersOf is what the alert fires on by the first test that sees it fire: each
// series goes on as it did in the minute before.
func triggersOf(t *testing.T, tests []unitTest, alert string) []trace {
	t.Helper()
	for _, test := range tests {
		for _, at := range test.PromqlExprTests {
			if found := firingAlert.FindStringSubmatch(at.Expr); found != nil && found[1] == alert && len(at.ExpSamples) > 0 {
				return test.tracesAt(t, time.Duration(at.EvalTime))
			}
		}
	}
	return nil
}

func (u unitTest) tracesAt(t *testing.T, offset time.Duration) []trace {
	t.Helper()
	interval := cmp.Or(time.Duration(u.Interval), minute)
	now, before := int(offset/interval), int((offset-minute)/interval)
	var out []trace
	for _, s := range u.Series {
		read := parsed(t, []string{s.Series + " " + s.Values})[0]
		said, earlier := read.values[min(now, len(read.values)-1)], read.values[min(before, len(read.values)-1)]
		switch {
		case !said.Omitted && !earlier.Omitted && said.Value > earlier.Value:
			out = append(out, grows(s.Series, said.Value-earlier.Value))
		case !said.Omitted:
			out = append(out, stays(s.Series, said.Value))
		}
	}
	return out
}
