package page

import (
	"bytes"
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/yuin/goldmark"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// checkPage is the page of one check: its runbook and what it finds.
type checkPage struct {
	Summary, Severity         string
	Conditions, Alerts, Needs string
	Runbook                   template.HTML
	Findings                  []findingRow
	More                      int
	All                       link
	// Filled is the webhook whose names stand in the commands of the runbook.
	Filled link
}

// checkList are all checks, and how much each finds.
func (v *view) checkList() report.Blocks {
	t := &report.Table{Headings: []string{"Check", "Severity", "Findings", "Reports"}, Links: map[string]string{}, Tones: severityTones}
	counts := v.ofChecks()
	for _, c := range classify.Checks {
		found, acknowledged := 0, 0
		for _, f := range counts[c] {
			if f.Acknowledged {
				acknowledged++
			} else {
				found++
			}
		}
		count := fmt.Sprint(found)
		if needs := v.lacks(c); needs != "" && found == 0 {
			count = "not known: " + needs
		}
		if acknowledged > 0 {
			count += fmt.Sprintf(" + %d acknowledged", acknowledged)
		}
		t.Rows, t.Links[c.Name] = append(t.Rows, []string{c.Name, c.Severity.String(), count, c.Summary}), v.check(c).URL
	}
	return report.Blocks{{Table: t}}
}

// lacks says what a check needs that the Report does not have; "" if nothing.
func (v *view) lacks(c *classify.Check) string {
	switch o := v.Snapshot.Observed; {
	case len(v.profiles) == 0:
		return "needs a webhook"
	case (c.Name == "backend-unreachable" || c.Name == "serving-certificate") && len(v.Snapshot.Probes) == 0:
		return "needs --probe=tls"
	case c.Name == "never-called" && (o == nil || o.CalledLastWeek == nil):
		return "needs --prometheus-url with a week of samples"
	}
	return ""
}

func (v *view) ofChecks() map[*classify.Check][]*classify.Finding {
	out := map[*classify.Check][]*classify.Finding{}
	for _, f := range v.findings {
		out[f.Check] = append(out[f.Check], f)
	}
	return out
}

func (v *view) checkPage(c *classify.Check) *checkPage {
	p := &checkPage{
		Summary: c.Summary, Severity: c.Severity.String(), Needs: v.lacks(c),
		Runbook: rendered()[c.Name], All: v.search("all of them", url.Values{"finding": {c.Name}}),
	}
	var alerts []string
	for _, s := range classify.Severities {
		if name := c.Alerts[s]; name != "" {
			alerts = append(alerts, fmt.Sprintf("%s (%s)", name, s))
		}
	}
	p.Conditions, p.Alerts = strings.Join(c.Conditions(), ", "), strings.Join(alerts, ", ")
	p.Findings, p.More = v.rows(v.ofChecks()[c], v.limits().findings)
	return p
}

// fill sets the names of a webhook into the commands of the runbook: of the webhook
// that is asked for, else of the first finding. A name that means something to a shell
// is left to the reader.
func (v *view) fill(p *checkPage, c *classify.Check, asked inventory.Ref) {
	webhook := v.byRef[asked]
	if findings := v.ofChecks()[c]; webhook == nil && len(findings) > 0 {
		webhook = v.byRef[findings[0].Webhook]
	}
	if webhook == nil {
		return
	}
	known := [][2]string{{"NAMESPACE", webhook.State.Service.Namespace}, {"SERVICE", webhook.State.Service.Name}}
	if webhook.Type == inventory.Conversion { // KIND and CONFIGURATION are in commands that would delete the CRD
		known = append(known, [2]string{"CRD", webhook.Configuration})
	} else {
		known = append(known, [2]string{"KIND", strings.ToLower(webhook.Object.Kind)}, [2]string{"CONFIGURATION", webhook.Configuration}, [2]string{"NAME", webhook.Name})
	}
	var names []string
	for _, name := range known {
		if plainName.MatchString(name[1]) {
			names = append(names, "&quot;$"+name[0]+"&quot;", name[1])
		}
	}
	p.Runbook = template.HTML(strings.NewReplacer(names...).Replace(string(p.Runbook)))
	p.Filled = v.webhook(webhook.Ref)
}

// plainName is a name that needs no quotes in a shell.
var plainName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9.:-]*$`)

// rendered are the runbooks, which are part of the program, once they are first looked at.
// It has no tables: goldmark's extensions cost each start of the program 0.3 ms.
var rendered = sync.OnceValue(func() map[string]template.HTML {
	markdown := goldmark.New()
	out := map[string]template.HTML{}
	for _, c := range classify.Checks {
		var b bytes.Buffer
		if err := markdown.Convert([]byte(withoutTitle(c.Runbook())), &b); err != nil {
			panic(err) // unreachable: writing to memory does not fail
		}
		out[c.Name] = template.HTML(scrollable.Replace(b.String()))
	}
	return out
})

// scrollable lets what is wider than the page scroll, also by the keyboard.
var scrollable = strings.NewReplacer("<pre>", `<pre tabindex="0">`)

// withoutTitle leaves out the first line, which is the name of the check.
func withoutTitle(runbook string) string {
	title, rest, _ := strings.Cut(runbook, "\n")
	if !strings.HasPrefix(title, "# ") {
		return runbook
	}
	return rest
}
