package page

import (
	"net/http"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
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

// change leads to the webhooks of the configuration.
func (v *view) change(c impact.PastChange) report.Block {
	b := report.Block{Heading: v.ago(c.At) + ": " + c.Subject()}
	b.Lines = append(b.Lines, report.Line{Name: c.Configuration, URL: v.search("", c.Configuration).URL, Under: report.Sentences(c.Differences...)})
	for _, text := range c.Added {
		b.Lines = append(b.Lines, report.Line{Label: "came with it", Tone: report.Critical, Text: text})
	}
	for _, text := range c.Resolved {
		b.Lines = append(b.Lines, report.Line{Label: "went with it", Tone: report.Good, Text: text})
	}
	return b
}
