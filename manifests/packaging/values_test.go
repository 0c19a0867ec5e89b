package packaging

import (
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/manifests/packaging/must"
)

var update = flag.Bool("update", false, "write the table of the values")

// value is one that the chart takes.
type value struct{ path, usual, text string }

// values are those of the chart, with their comments.
func values(t *testing.T) []value {
	t.Helper()
	text := must.Get(os.ReadFile("../chart/values.yaml"))(t)
	var document yamlv3.Node
	must.Succeed(t, yamlv3.Unmarshal(text, &document))
	return below(t, "", document.Content[0])
}

// below are the values of a mapping. One with a comment is one value, whatever
// it holds.
func below(t *testing.T, prefix string, mapping *yamlv3.Node) []value {
	t.Helper()
	var out []value
	for pair := range slices.Chunk(mapping.Content, 2) {
		key, node := pair[0], pair[1]
		path := prefix + key.Value
		if text, ok := strings.CutPrefix(key.HeadComment, "# -- "); ok {
			out = append(out, value{path, inline(t, node), text})
			continue
		}
		if node.Kind != yamlv3.MappingNode {
			t.Errorf("values.yaml: %s has no comment", path)
			continue
		}
		out = append(out, below(t, path+".", node)...)
	}
	return out
}

func inline(t *testing.T, node *yamlv3.Node) string {
	t.Helper()
	var content any
	must.Succeed(t, node.Decode(&content))
	text := must.Get(json.Marshal(content))(t)
	return string(text)
}

// TestValuesAreDocumented: the table in the README is what values.yaml says.
func TestValuesAreDocumented(t *testing.T) {
	const path, begin, end = "../chart/README.md", "| Value | Default | What it is |\n| --- | --- | --- |\n", "\n## "
	text := must.Get(os.ReadFile(path))(t)
	before, rest, found := strings.Cut(string(text), begin)
	have, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no table of the values", path)
	}
	var want strings.Builder
	for _, v := range values(t) {
		fmt.Fprintf(&want, "| `%s` | `%s` | %s |\n", v.path, v.usual, v.text)
	}
	if *update {
		must.Succeed(t, os.WriteFile(path, []byte(before+begin+want.String()+end+after), 0o644))
		return
	}
	if have != want.String() {
		t.Errorf("%s: the table differs from values.yaml, run go test . -update; want\n%s", path, want.String())
	}
}

// uses has each value, the values that change it, and what that makes of the objects.
//
//go:embed testdata/uses.tsv
var uses string

// use returns the values that change one, and what that makes of the objects.
func use(t *testing.T, path string) (values, want string) {
	t.Helper()
	_, row, isFound := strings.Cut("\n"+uses, "\n"+path+"\t")
	if !isFound {
		t.Fatalf("%s: no test changes it", path)
	}
	row, _, _ = strings.Cut(row, "\n")
	values, want, _ = strings.Cut(strings.ReplaceAll(row, `\n`, "\n"), "\t")
	return values, want
}

func TestEachValueHasItsUse(t *testing.T) {
	usual := written(t, `{}`)
	for _, v := range values(t) {
		values, want := use(t, v.path)
		got := written(t, values)
		want, leaves := strings.CutPrefix(want, "!")
		if strings.Contains(got, want) == leaves || strings.Contains(usual, want) != leaves {
			t.Errorf("%s: with %s, %q: %t, and without: %t", v.path, values, want, strings.Contains(got, want), strings.Contains(usual, want))
		}
	}
}

// written are the objects of the chart, in the order of their names.
func written(t *testing.T, values string) string {
	t.Helper()
	rendered := must.Get(templated(t, namespace, values))(t)
	var out strings.Builder
	for _, id := range slices.Sorted(maps.Keys(rendered)) {
		text := must.Get(yaml.Marshal(rendered[id]))(t)
		out.Write(text)
		out.WriteString("---\n")
	}
	return out.String()
}

// TestTyposAreRefused: a value that is not read would be a decision that
// has no effect.
func TestTyposAreRefused(t *testing.T) {
	for _, wrong := range []string{
		`{alerts: {clusterLabel: a-b}}`, `{alerts: {labels: {severity: page}}}`, `{prometheusOperator: {enabled: true}, alerts: {thresholds: {WebhookSlow: 0.005}}}`, `{alerts: {runbookBaseURL: example.com}}`,
		`{prometheusOperator: {enabled: true}, alerts: {disabled: [WebhookNone]}}`, `{prometheusOperator: {enabled: true}, alerts: {thresholds: {WebhookAuditorDown: 0.1}}}`,
		`{prometheusOperator: {enabled: true}, alerts: {thresholds: {pageShare: 0.05}}}`, `{prometheusOperator: {enabled: true}, alerts: {thresholds: {pageShare: 0.1, WebhookFailingOpen: 0.15}}}`,
		`{prometheusOperator: {enabled: true}, alerts: {disabled: [WebhookSlow], thresholds: {WebhookSlow: 0.1}}}`, `{prometheusOperator: {enabled: true}, alerts: {disabled: [WebhookSlow], critical: [WebhookSlow]}}`,
		`{replica: 3}`, `{ingress: {enabled: true}}`, `{httpRoute: {enabled: true}}`, `{image: {repo: x}}`, `{grafana: true}`, `{statusPage: {url: auditor.example.com}}`, `{replicas: many}`, `{extraArgs: [degraded]}`, `{networkPolicy: {apiServerPorts: []}}`,
		`{policy: {longTimeout: 5}}`, `{policy: {budgets: [{resource: pods}]}}`, `{policy: {acknowledgements: [{check: over-broad}]}}`, `{policy: {latencyThresholds: {a: 3}}}`,
	} {
		if _, err := templated(t, namespace, wrong); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}

// TestPolicyNeedsNoRollout: it differs in the ConfigMap alone, which the Pods
// read again when it changes.
func TestPolicyNeedsNoRollout(t *testing.T) {
	before := must.Get(templated(t, namespace, `{}`))(t)
	changed, _ := use(t, "policy")
	after := must.Get(templated(t, namespace, changed))(t)
	for id, object := range before {
		if changed := !reflect.DeepEqual(object, after[id]); changed != strings.HasPrefix(id, "ConfigMap") {
			t.Errorf("%s changed: %t", id, changed)
		}
	}
}
