package page

import (
	"context"
	"fmt"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/start"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// The bounds of the page.
const (
	maxNeeds        = 300
	maxNeedWebhooks = 5
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
	needs, independent := v.Report.Needs(ctx)
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
	dependencies := report.Block{Heading: "Dependencies", Table: t}
	switch {
	case len(needs) == 0:
		dependencies.Lines = report.Sentences("No webhook refuses what the Pods of another need.")
	case independent > 0:
		dependencies.Lines = report.Sentences(fmt.Sprintf("%s with failurePolicy Fail: nothing that another needs is refused.", inventory.Counted(independent, "other webhook")))
	}
	return append(report.Blocks{deadlocks}.NonEmpty(), dependencies).Bounded(maxNeeds)
}

func needCells(n start.Need) []string {
	var names []string
	for _, ref := range n.Webhooks[:min(len(n.Webhooks), maxNeedWebhooks)] {
		names = append(names, ref.Name)
	}
	why := strings.Join(names, ", ")
	if more := len(n.Webhooks) - len(names); more > 0 {
		why += fmt.Sprintf(" and %d more", more)
	}
	switch {
	case len(n.Webhooks) == 0:
		why = "every Pod needs it " + n.Use
	case n.Certain:
		why += " refuses " + n.What + " it"
	default:
		why += " refuses " + n.What + " it, unless a label exempts it that is not known"
	}
	cycle := "no"
	if n.Cycle {
		cycle = "yes"
	}
	return []string{firstOf(n.From), firstOf(n.To), why, cycle}
}

// firstOf names a group of workloads by its first.
func firstOf(names []string) string {
	if len(names) > 1 {
		return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
	}
	return names[0]
}
