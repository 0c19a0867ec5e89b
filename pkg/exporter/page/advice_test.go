package page

import (
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/diagnose"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// converted makes an error about an admission webhook one about a conversion.
var converted = regexp.MustCompile(`failed calling webhook \\*"[^"\\]*\\*"`)

// advice is all that is printed of the fixtures, of each cause of an error, in runbooks and
// in alerts, by where it is.
func advice(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{"alerts": string(must.Get(os.ReadFile("../../../rules/testdata/annotations.md"))(t))}
	for _, c := range classify.Checks {
		out["runbook "+c.Name] = c.Runbook()
	}
	write := func(where string, blocks report.Blocks) {
		var b strings.Builder
		must.Succeed(t, blocks.WriteText(&b, report.TextOptions{}))
		out[where] += b.String()
	}
	errors := string(must.Get(os.ReadFile("../../classify/diagnose/testdata/errors.tsv"))(t))
	reports := map[string]*classify.Report{"nothing": clusterOf(t, "../../../e2e/demo")}
	for _, pattern := range []string{"*.yaml", "outages/*.yaml"} {
		for _, name := range must.Get(filepath.Glob("../../classify/testdata/" + pattern))(t) {
			reports[name] = clusterOf(t, name)
		}
	}
	for name, r := range reports {
		h := serve(r)
		_, overview, _ := get(t, h, "/")
		out["page of "+name] = overview + file(t, r)
		var cards []impact.Card
		for _, p := range r.Profiles {
			_, page, _ := get(t, h, "/"+webhookName(p.Ref))
			out["page of "+name+" "+p.Name] = page
			cards = append(cards, impact.NewCard(r, p))
		}
		for _, p := range r.Snapshot.Policies {
			cards = append(cards, impact.PolicyCards(r, p.Ref)...)
		}
		write("impact of "+name, append(report.NewImpact(cards, &inventory.Snapshot{}).Text(report.TextOptions{}), report.NewImpact(cards, &inventory.Snapshot{}).Markdown()...))
		write("audit of "+name, report.NewDocument(r).Text(report.TextOptions{Fixes: true, Verbose: true}))
	}
	for line := range strings.Lines(errors + converted.ReplaceAllString(errors, "conversion webhook for shop.example.com/v1, Kind=Cart failed")) {
		var answers []diagnose.Answer
		for _, e := range diagnose.Parse(line[strings.LastIndexByte(line, '\t')+1:]) {
			answers = append(answers, diagnose.Explain(reports["nothing"], e))
		}
		write("error "+line, report.NewDiagnosis(answers, reports["nothing"].Snapshot).Text(report.TextOptions{}))
	}
	return out
}

var (
	changing = regexp.MustCompile(`kubectl (?:delete|patch) [^\s-]\S*`)
	// kept ends the command before one that changes an object: it has written a copy.
	kept       = regexp.MustCompile(`> "?[\w.$-]+\.yaml"?(?: && |\n)`)
	destroying = regexp.MustCompile(`(?i)kubectl delete (?:crd|customresourcedefinition|namespace)|delete the (?:CRD|CustomResourceDefinition)`)
	commands   = regexp.MustCompile(`<code class="block" tabindex="0">([^<]*)</code>(<button)?`)
	disabling  = regexp.MustCompile(`<h3>Disable it</h3>\s*<div class="command"><code class="block" tabindex="0">[^<]* &amp;&amp; kubectl (?:delete|patch) `)
)

// TestAdvice: no advice deletes objects of users; what changes one stands behind a copy of
// it; and what a button copies can be run.
func TestAdvice(t *testing.T) {
	all, conversions, disabled := advice(t), 0, 0
	for where, text := range all {
		if strings.Contains(text, "<h3>Disable it</h3>") {
			disabled++
			if !disabling.MatchString(text) {
				t.Errorf("%s: no command disables it", where)
			}
		}
		for _, m := range commands.FindAllStringSubmatch(text, -1) {
			if command := html.UnescapeString(m[1]); !strings.Contains(command, "\n") && report.Complete(command) != (m[2] != "") {
				t.Errorf("%s: a button to copy what is to be filled in, or none: %s", where, command)
			}
		}
		text = strings.ReplaceAll(html.UnescapeString(text), "Never delete the CRD", "")
		if found := destroying.FindString(text); found != "" {
			t.Errorf("%s: %q in\n%s", where, found, text)
		}
		if strings.Contains(text, "Conversion of ") {
			if conversions++; strings.Contains(text, "delete the configuration") || strings.Contains(text, "configuration that names the Service") {
				t.Errorf("%s: the configuration of a conversion is the CRD:\n%s", where, text)
			}
		}
		for _, at := range changing.FindAllStringIndex(text, -1) {
			before := text[:at[0]]
			if !strings.HasPrefix(where, "runbook ") {
				before = before[max(strings.LastIndex(before, "kubectl get "), strings.LastIndex(before, "kubectl patch "), strings.LastIndex(before, "kubectl delete "), 0):]
			}
			if !kept.MatchString(before) {
				t.Errorf("%s: %s without a copy behind %.200s", where, text[at[0]:at[1]], before)
			}
		}
	}
	if conversions < 20 || disabled < 40 {
		t.Errorf("%d errors of conversions, %d webhooks to disable", conversions, disabled)
	}
}
