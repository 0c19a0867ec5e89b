package rules

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/rules"

	"github.com/webhook-auditor/webhook-auditor/internal/golden"
	"github.com/webhook-auditor/webhook-auditor/internal/promql"
)

// TestAnnotations holds what Prometheus makes of each alert's templates with the
// values of an incident.
func TestAnnotations(t *testing.T) {
	t.Parallel()
	texts := map[string]string{}
	for name, traces := range incidents(t) {
		p := evaluateFile(t, groupFile(t, groupsOf(t, alertsNeeded(name)...)), minute, faults[0].lines(traces))
		p.now = begun * minute
		if name == "WebhookUnwatched" {
			p.now = 0
		}
		texts[name] = annotationsOf(firingOf(p.until(looked*minute), name))
	}
	maps.Copy(texts, findingTexts(t))
	var b strings.Builder
	b.WriteString("# What the alerts say\n\nRendered by Prometheus with the values of an incident. TestAnnotations compares it, and writes it with `-update`.\n")
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintf(&b, "\n## %s\n\n%s", name, texts[name])
	}
	if strings.Contains(b.String(), "error expanding template") || strings.Contains(b.String(), "\n\n\n") {
		t.Error("an alert is missing, or has a template that Prometheus cannot expand")
	}
	golden.Compare(t, "annotations.md", []byte(b.String()))
	checkTexts(t, texts)
}

var (
	summaryLine     = regexp.MustCompile(`(?m)^- summary: (.+)$`)
	descriptionLine = regexp.MustCompile(`(?m)^- description: (.+)$`)
)

// checkTexts holds how long the texts are that a person reads at night, and that each
// has a command that needs kubectl alone.
func checkTexts(t *testing.T, texts map[string]string) {
	t.Helper()
	var sizes []int
	for name, text := range texts {
		summary, description := summaryLine.FindStringSubmatch(text), descriptionLine.FindStringSubmatch(text)
		if summary == nil || description == nil {
			t.Errorf("%s has no summary, or no description", name)
			continue
		}
		sizes = append(sizes, len(description[1]))
		if len(summary[1]) > 120 || len(description[1]) > 700 {
			t.Errorf("%s: %d characters of summary, want 120 at most, and %d of description, want 700", name, len(summary[1]), len(description[1]))
		}
		if !strings.Contains(description[1], `"kubectl `) {
			t.Errorf("%s names no command: %s", name, description[1])
		}
	}
	if slices.Sort(sizes); sizes[len(sizes)/2] > 400 {
		t.Errorf("half of the descriptions have more than %d characters, want 400", sizes[len(sizes)/2])
	}
	t.Logf("descriptions have %d characters at the median, %d at most", sizes[len(sizes)/2], sizes[len(sizes)-1])
}

// incidents are, for each signal alert, the series of one, with names as they
// are in clusters.
func incidents(t *testing.T) map[string][]trace {
	t.Helper()
	out := allTriggers(t)
	out["WebhookUnwatched"] = []trace{stays(`up{instance="a",job="apiserver"}`, 0), stays(scraped+`{instance="a",job="apiserver"}`, 1).except(1, watched+1, "stale")}
	for _, name := range []string{"WebhookCallsFailing", "WebhookFailingClosed", "WebhookFailingOpen"} {
		other := grows(requested("200"), 10).renamed(`instance="a"`, `instance="10.0.0.2:6443"`)
		out[name] = append(slices.Clip(out[name]), other)
	}
	for _, name := range []string{"WebhookCallsFailing", "WebhookFailingOpen"} {
		out[name] = append(out[name], reach)
	}
	mutates := stays(`webhook_auditor_policy_info{instance="x",pod="x",name="defaults",type="mutatingpolicy",failure_policy="Fail"}`, 1)
	out["WebhookPolicyMutationsFailing"] = append(slices.Clip(out["WebhookPolicyMutationsFailing"]), mutates)
	for name, traces := range out {
		traces = append(slices.Clip(traces), gauge("webhook_info", knownHook+`,configuration="policy",failure_policy="Fail"`, 1))
		var renamed []trace
		for _, tr := range traces {
			for _, pair := range [][2]string{
				{`instance="a"`, `instance="10.0.0.1:6443"`},
				{`instance="other"`, `instance="10.0.0.2:6443"`},
				{`instance="x",pod="x"`, `instance="10.1.0.7:8443",pod="webhook-auditor-5d4c-x2x9q"`},
				{`crd_name="w"`, `crd_name="backups.storage.example.com"`},
				{`name="w",type="conversion"`, `name="backups.storage.example.com",type="conversion"`},
				{`name="w"`, `name="pods.policy.example.com"`},
				{`error_type="calling_webhook_error"`, `error_type="calling_webhook_error",rejection_code="503"`},
				{`error_type="apiserver_internal_error"`, `error_type="apiserver_internal_error",rejection_code="500"`},
			} {
				tr = tr.renamed(pair[0], pair[1])
			}
			renamed = append(renamed, tr)
		}
		out[name] = renamed
	}
	return out
}

// alertsNeeded are the alerts to evaluate, so that one of the name fires.
func alertsNeeded(name string) []string {
	if name == "WebhookUnwatched" {
		return []string{"WebhookAuditorDown", name}
	}
	return []string{name}
}

func firingOf(alerts []*rules.Alert, names ...string) []*rules.Alert {
	return slices.DeleteFunc(slices.Clone(alerts), func(a *rules.Alert) bool { return !slices.Contains(names, a.Labels.Get("alertname")) })
}

// findingTexts are what the alerts on findings say, one for each check and failurePolicy.
func findingTexts(t *testing.T) map[string]string {
	t.Helper()
	var series, names []string
	for _, f := range findingsOfAll() {
		series, names = append(series, f.series()...), append(names, f.Name)
		if f.policy() == "Fail" {
			refused := fmt.Sprintf(`instance="a",name=%q,type="validating",operation="CREATE",error_type="calling_webhook_error",rejection_code="500"`, f.webhook)
			series = append(series, fmt.Sprintf(`%s{%s} 0+10x%d`, promql.Rejections, refused, int(findingLooked/time.Minute)))
		}
	}
	p := evaluateFile(t, groupFile(t, groupsOf(t, names...)), time.Minute, series)
	p.tick = 3 * time.Minute
	texts := map[string]string{}
	for _, a := range p.until(findingEnds - p.tick) {
		texts[fmt.Sprintf("%s (%s, %s)", a.Labels.Get("alertname"), a.Labels.Get("check"), cmp.Or(a.Labels.Get("failure_policy"), "no failurePolicy"))] = annotationsOf([]*rules.Alert{a})
	}
	return texts
}

// annotationsOf writes the annotations of the first of the alerts.
func annotationsOf(alerts []*rules.Alert) string {
	if len(alerts) == 0 {
		return ""
	}
	a := alerts[0]
	return fmt.Sprintf("- labels: `%s`\n- summary: %s\n- description: %s\n- runbook_url: %s\n- runbook_variables: %s\n", a.Labels.String(),
		a.Annotations.Get("summary"), a.Annotations.Get("description"), a.Annotations.Get("runbook_url"), cmp.Or(a.Annotations.Get("runbook_variables"), "none"))
}
