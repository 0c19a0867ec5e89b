package rules

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/rules"
	yaml "go.yaml.in/yaml/v3"
)

// unitTests is a file for "promtool test rules". The tests are read here, too,
// so that "go test" needs no promtool; check.sh runs the real one.
type unitTests struct {
	RuleFiles          []string       `yaml:"rule_files,flow"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []unitTest     `yaml:"tests"`
}

type unitTest struct {
	Name           string         `yaml:"name"`
	Interval       model.Duration `yaml:"interval"`
	InputSeries    []inputSeries  `yaml:"input_series"`
	AlertRuleTests []alertTest    `yaml:"alert_rule_test"`
}

type inputSeries struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

type alertTest struct {
	EvalTime  model.Duration `yaml:"eval_time"`
	Alertname string         `yaml:"alertname"`
	ExpAlerts []expAlert     `yaml:"exp_alerts"`
}

type expAlert struct {
	Labels      map[string]string `yaml:"exp_labels"`
	Annotations map[string]string `yaml:"exp_annotations"`
}

func TestUnit(t *testing.T) {
	files, err := filepath.Glob("tests/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found the tests %q, error %v", files, err)
	}
	for _, file := range files {
		if file == findingTests {
			continue // evaluated where it is derived
		}
		tests := readUnitTests(t, file)
		for i, test := range tests.Tests {
			t.Run(filepath.Base(file)+": "+test.Name, func(t *testing.T) {
				run(t, time.Duration(tests.EvaluationInterval), &tests.Tests[i])
			})
		}
		if *update {
			golden(t, file, encodeUnitTests(t, tests))
		}
	}
}

func readUnitTests(t *testing.T, file string) unitTests {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var tests unitTests
	if err := yaml.Unmarshal(text, &tests); err != nil {
		t.Fatal(err)
	}
	return tests
}

func encodeUnitTests(t *testing.T, tests unitTests) []byte {
	t.Helper()
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(tests); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// run compares what fires with what should. With -update it writes down the
// text of the alerts, but never how many there are.
func run(t *testing.T, tick time.Duration, test *unitTest) {
	t.Helper()
	for i, got := range evaluate(t, tick, test) {
		at := &test.AlertRuleTests[i]
		if *update && len(got) == len(at.ExpAlerts) {
			at.ExpAlerts = got
		}
		if diff := cmp.Diff(at.ExpAlerts, got); diff != "" {
			t.Errorf("%s after %s (-want +got):\n%s", at.Alertname, at.EvalTime, diff)
		}
	}
}

// evaluate returns what fires at each moment that the test looks at.
func evaluate(t *testing.T, tick time.Duration, test *unitTest) [][]expAlert {
	t.Helper()
	var series, names []string
	for _, s := range test.InputSeries {
		series = append(series, s.Series+" "+s.Values)
	}
	for _, at := range test.AlertRuleTests {
		names = append(names, at.Alertname)
	}
	p := playFile(t, fileOf(t, names...), time.Duration(test.Interval), series)
	p.tick = tick
	var out [][]expAlert
	for _, at := range test.AlertRuleTests {
		out = append(out, fired(p.until(time.Duration(at.EvalTime)), at.Alertname))
	}
	return out
}

// fired returns the alerts of the name, in a stable order.
func fired(alerts []*rules.Alert, name string) []expAlert {
	out := []expAlert{}
	for _, a := range alerts {
		if a.Labels.Get("alertname") != name {
			continue
		}
		labels := a.Labels.Map()
		delete(labels, "alertname")
		out = append(out, expAlert{Labels: labels, Annotations: a.Annotations.Map()})
	}
	slices.SortFunc(out, func(a, b expAlert) int {
		return strings.Compare(fmt.Sprint(a.Labels), fmt.Sprint(b.Labels))
	})
	return out
}

// TestUnitCoverage holds that the tests see every alert fire, stay silent
// before, and resolve.
func TestUnitCoverage(t *testing.T) {
	files, err := filepath.Glob("tests/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]map[string]bool{}
	for _, file := range files {
		for _, test := range readUnitTests(t, file).Tests {
			note(seen, test)
		}
	}
	for _, g := range Groups() {
		for _, a := range g.Alerts {
			if got := slices.Sorted(maps.Keys(seen[a.Name])); !slices.Equal(got, []string{"fires", "resolves", "silent"}) {
				t.Errorf("the tests see %s only as %q", a.Name, got)
			}
		}
	}
}

// note writes down what a test sees of each alert.
func note(seen map[string]map[string]bool, test unitTest) {
	firing := map[string]bool{}
	for _, at := range test.AlertRuleTests {
		if seen[at.Alertname] == nil {
			seen[at.Alertname] = map[string]bool{}
		}
		what := "silent"
		switch {
		case len(at.ExpAlerts) > 0:
			what = "fires"
		case firing[at.Alertname]:
			what = "resolves"
		}
		seen[at.Alertname][what] = true
		firing[at.Alertname] = len(at.ExpAlerts) > 0
	}
}
