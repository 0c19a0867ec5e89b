package page

import (
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/start"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// maxNeeds bounds the rows of the page.
const maxNeeds = 300

// cycles says whether Pods of webhooks wait for each other: only then there is something
// to see.
func cycles(r *classify.Report) bool {
	for _, p := range r.Profiles {
		if p.Deadlock != nil {
			return true
		}
	}
	return false
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
