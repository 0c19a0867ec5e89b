package page

import (
	"bytes"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/yuin/goldmark"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/start"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// maxNeeds bounds the rows of the page.
const maxNeeds = 300

// cycles says whether Pods of webhooks wait for each other: only then there is something
// to see.
func cycles(r *classify.Report) bool {
	return slices.ContainsFunc(r.Profiles, func(p *classify.Profile) bool { return p.Deadlock != nil })
}

// bootstrap shows which webhooks' Pods wait for which others, in the cycles of each.
func (v *view) bootstrap() report.Blocks {
	deadlocks := report.Block{Heading: "Deadlocks"}
	t := &report.Table{Headings: []string{"The Pods of", "need", "because"}}
	shown := map[string]bool{}
	for _, p := range v.profiles {
		d := p.Deadlock
		if d == nil {
			continue
		}
		line := report.Line{Name: p.Name, URL: v.webhook(p.Ref).URL, Under: report.Sentences(d.Steps...)}
		if !d.Certain {
			line.Text = "unless a label exempts it that is not known"
		}
		deadlocks.Lines = append(deadlocks.Lines, line)
		for _, w := range d.Waits {
			if row := waitCells(w); !shown[strings.Join(row, "\n")] {
				shown[strings.Join(row, "\n")] = true
				t.Rows = append(t.Rows, row)
			}
		}
	}
	return report.Blocks{deadlocks, {Heading: "Dependencies", Table: t}}.NonEmpty().Bounded(maxNeeds)
}

func waitCells(w start.Wait) []string {
	why := "every Pod needs it " + w.Use
	if w.Webhook != nil {
		why = w.Webhook.Name + " refuses " + w.What + " it"
	}
	if w.Unless != "" {
		why += ", unless a label exempts it that is not known"
	}
	return []string{w.From, w.On, why}
}

// maxChanges bounds the page, of which each change is some kilobytes at most; the log and
// Events have all.
const maxChanges = 15

// changesPage is the page of what changed of the registrations, the newest first.
type changesPage struct {
	// Since is when the changes began to be watched.
	Since   string
	Changes report.Blocks
	Total   int
}

func (h *handler) changes(v *view, _ *http.Request) answer {
	p := &changesPage{}
	if h.History != nil {
		changes := h.History.After(0)
		p.Since, p.Total = timeText(h.History.Since()), len(changes)
		for _, c := range slices.Backward(changes[max(len(changes)-maxChanges, 0):]) {
			p.Changes = append(p.Changes, v.change(c))
		}
	}
	return answer{title: "Changes", template: "changes", data: p}
}

// change leads to the webhooks of the configuration; policies have no page.
func (v *view) change(c impact.PastChange) report.Block {
	b := report.Block{Heading: v.ago(c.At) + ": " + c.Subject()}
	named := report.Line{Name: c.Configuration, Under: report.Sentences(c.Differences...)}
	if !c.Type.IsPolicy() {
		named.URL = v.search("", c.Configuration).URL
	}
	b.Lines = append(b.Lines, named)
	for _, text := range c.Added {
		b.Lines = append(b.Lines, report.Line{Label: "came with it", Tone: report.Critical, Text: text})
	}
	for _, text := range c.Resolved {
		b.Lines = append(b.Lines, report.Line{Label: "went with it", Tone: report.Good, Text: text})
	}
	return b
}

// checkPage is the page of one check: its runbook and what it finds.
type checkPage struct {
	Summary, Severity string
	Runbook           template.HTML
	Findings          []findingRow
	More              int
	All               link
}

func (v *view) checkPage(c *classify.Check) *checkPage {
	p := &checkPage{
		Summary: c.Summary, Severity: c.Severity.String(), Runbook: rendered()[c.Name], All: v.search("all of them", c.Name),
	}
	others := func(f *classify.Finding) bool { return f.Check != c }
	p.Findings, p.More = v.rows(slices.DeleteFunc(slices.Clone(v.Findings), others), maxFindings)
	return p
}

// rendered are the runbooks, which are part of the program, once they are first looked at.
// It has no tables: goldmark's extensions cost each start of the program 0.3 ms.
var rendered = sync.OnceValue(func() map[string]template.HTML {
	markdown := goldmark.New()
	out := map[string]template.HTML{}
	for _, c := range classify.Checks {
		var b bytes.Buffer
		if err := markdown.Convert([]byte(c.Runbook()), &b); err != nil {
			panic(err) // unreachable: writing to memory does not fail
		}
		out[c.Name] = template.HTML(b.String())
	}
	return out
})
