package packaging

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/webhook-auditor/webhook-auditor/manifests/packaging/must"
)

// TestAlertsAreThoseOfTheCommandLine: the chart makes of its values what "print
// rules" makes of its options, on OpenShift as elsewhere.
func TestAlertsAreThoseOfTheCommandLine(t *testing.T) {
	for _, test := range []struct{ values, flags string }{
		{`{}`, ``},
		{`{clusterLabel: clusterid}`, `--cluster-label=clusterid`},
		{`{runbookBaseURL: "https://example.com/books"}`, `--runbook-base-url=https://example.com/books`},
		{`{labels: {team: platform}}`, `--alert-labels=team=platform`},
		{`{severities: enhancement}`, `--severities=enhancement`},
		{`{severities: enhancement, thresholds: {WebhookFailingOpen: 0.1}}`, `--severities=enhancement --threshold=WebhookFailingOpen=0.1`},
		{`{disabled: [WebhookSlow, WebhookBackendDown]}`, `--disable=WebhookSlow,WebhookBackendDown`},
		{`{thresholds: {` + numbers(t, 0.5, ": ") + `}}`, `--threshold=` + numbers(t, 0.5, "=")},
		{`{thresholds: {` + numbers(t, 1.5, ": ") + `}}`, `--threshold=` + numbers(t, 1.5, "=")},
		{`{critical: [WebhookFailingOpen]}`, `--critical=WebhookFailingOpen`},
	} {
		for _, platform := range []string{`prometheusOperator: {enabled: true}`, `openshift: {enabled: true}`} {
			t.Run(platform+test.flags, func(t *testing.T) {
				got := must.Get(templated(t, namespace, `{`+platform+`, alerts: `+test.values+`}`))(t)
				args := append([]string{"print", "rules", "--namespace=" + namespace}, strings.Fields(test.flags)...)
				text := must.Get(exec.CommandContext(t.Context(), "../../bin/webhook-auditor", args...).Output())(t)
				want := objects{}
				want.add(t, text)
				if len(want) == 0 {
					t.Fatal("no rules are printed")
				}
				for id, object := range want {
					if got[id] == nil {
						t.Fatalf("the chart has no %s", id)
					}
					if diff := cmp.Diff(expressions(object), expressions(got[id])); diff != "" {
						t.Errorf("-print +chart:\n%s", diff)
					}
				}
			})
		}
	}
}

// numbers are all that have an option, so many times their value, or the lowest that works.
func numbers(t *testing.T, factor float64, equals string) string {
	t.Helper()
	var of struct {
		Numbers map[string]struct{ Value, Lowest float64 }
	}
	must.Succeed(t, json.Unmarshal(must.Get(os.ReadFile("../../rules/adjustable.json"))(t), &of))
	var out []string
	for name, n := range of.Numbers {
		out = append(out, fmt.Sprintf("%s%s%g", name, equals, max(factor*n.Value, n.Lowest)))
	}
	return strings.Join(out, ",")
}

// TestStatusPage: with its address, the chart's alerts and boards lead to the page
// as those that are printed.
func TestStatusPage(t *testing.T) {
	const page = "https://auditor.example.com"
	got := must.Get(templated(t, namespace, `{prometheusOperator: {enabled: true}, grafana: {enabled: true}, statusPage: {url: "`+page+`/"}}`))(t)
	want := objects{}
	for _, args := range [][]string{{"rules", "--form=prometheusrule"}, {"dashboards", "--form=configmap"}} {
		text := must.Get(exec.CommandContext(t.Context(), "../../bin/webhook-auditor", append(append([]string{"print"}, args...), "--page-url="+page)...).Output())(t)
		want.add(t, text)
	}
	for id, object := range want {
		if object["kind"] == "ConfigMap" {
			id = strings.Replace(id, "//", "/"+namespace+"/", 1)
		}
		if got[id] == nil {
			t.Fatalf("the chart has no %s", id)
		}
		if diff := cmp.Diff(content(t, object), content(t, got[id])); diff != "" {
			t.Errorf("%s: -print +chart:\n%s", id, diff)
		}
	}
}

// content is what an object says: a board, or rules.
func content(t *testing.T, object map[string]any) any {
	t.Helper()
	data, ok := object["data"].(map[string]any)
	if !ok {
		return expressions(object)
	}
	out := map[string]any{}
	for name, text := range data {
		var board any
		if err := json.Unmarshal([]byte(text.(string)), &board); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = board
	}
	return out
}

// expressions drops white space from all texts of an object, in which the line
// breaks of long expressions are.
func expressions(value any) any {
	switch v := value.(type) {
	case string:
		return strings.Join(strings.Fields(v), "")
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = expressions(element)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for key, element := range v {
			out[key] = expressions(element)
		}
		return out
	}
	return value
}
