package page

import (
	"net/http"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

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

// change leads to the webhooks that there still are.
func (v *view) change(c impact.PastChange) report.Block {
	what := c.Object()
	if c.Edit != "" {
		what += " is " + string(c.Edit)
	}
	if c.Others > 0 {
		what = c.String()
	}
	b := report.Block{Heading: timeText(c.At) + ": " + what}
	if c.Written.Manager != "" {
		b.Heading += ", written by " + c.Written.Manager
		if !c.Written.At.IsZero() {
			b.Heading += " at " + timeText(c.Written.At)
		}
	}
	for _, w := range c.Webhooks {
		b.Lines = append(b.Lines, report.Line{Name: w.Ref.Name, URL: v.urlNow(w.Ref), Under: report.Sentences(w.Sentences...)})
	}
	if c.MoreWebhooks > 0 {
		b.Lines = append(b.Lines, report.Line{Text: "… and " + inventory.Counted(c.MoreWebhooks, "more webhook")})
	}
	b.Lines = append(b.Lines, v.pastFindings("came with it", report.Critical, c.Added)...)
	b.Lines = append(b.Lines, v.pastFindings("went with it", report.Good, c.Resolved)...)
	return b
}

// urlNow leads to the webhook where there still is one.
func (v *view) urlNow(ref inventory.Ref) string {
	if v.byRef[ref] == nil {
		return ""
	}
	return v.webhook(ref).URL
}

func (v *view) pastFindings(label string, tone report.Tone, of impact.PastFindings) []report.Line {
	var out []report.Line
	for _, f := range of.Findings {
		out = append(out, report.Line{
			Label: label, Tone: tone, Name: f.Severity.String() + " " + f.Check.Name + ":", URL: v.check(f.Check).URL,
			Text: f.Webhook.Name + " " + f.Message, Aside: f.Webhook.Type.Title() + ", configuration " + f.Webhook.Configuration,
		})
	}
	if of.More > 0 {
		out = append(out, report.Line{Label: label, Tone: tone, Text: inventory.Counted(of.More, "more finding")})
	}
	return out
}
