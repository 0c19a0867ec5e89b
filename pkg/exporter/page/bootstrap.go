package page

import (
	"context"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/start"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// The bounds of the page.
const (
	maxNeeds = 300
	maxWhy   = 250
)

// cycles says whether Pods of webhooks wait for each other: only then there is something
// to see.
func cycles(r *classify.Report) bool {
	for i := range r.Profiles {
		if r.Profiles[i].Deadlock != nil {
			return true
		}
	}
	return false
}

// bootstrap shows which webhooks' Pods need which webhooks to be created.
func (v *view) bootstrap(ctx context.Context) report.Blocks {
	needs := v.Report.Needs(ctx)
	deadlocks := report.Block{Heading: "Deadlocks"}
	for _, p := range v.profiles {
		if d := p.Deadlock; d != nil {
			line := report.Line{Name: p.Name, URL: v.webhook(p.Ref).URL, Under: report.Sentences(d.Steps...)}
			if !d.Certain {
				line.Text = "unless a label exempts it that is not known"
			}
			deadlocks.Lines = append(deadlocks.Lines, line)
		}
	}
	t := &report.Table{Headings: []string{"The Pods of", "need", "because", "Cycle"}, Tones: map[string]report.Tone{"yes": report.Critical}}
	for _, n := range needs {
		t.Rows = append(t.Rows, needCells(n))
	}
	return report.Blocks{deadlocks, {Heading: "Dependencies", Table: t}}.NonEmpty().Bounded(maxNeeds)
}

func needCells(n start.Need) []string {
	var names []string
	for _, ref := range n.Webhooks {
		names = append(names, ref.Name)
	}
	why := "every Pod needs it " + n.Use
	if len(names) > 0 {
		why = text.Shorten(strings.Join(names, ", "), maxWhy) + " refuses " + n.What + " it"
	}
	if !n.Certain {
		why += ", unless a label exempts it that is not known"
	}
	cycle := "no"
	if n.Cycle {
		cycle = "yes"
	}
	return []string{bounded(n.From), bounded(n.To), why, cycle}
}
