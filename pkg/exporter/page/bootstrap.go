package page

import (
	"context"
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify/start"
)

// bootstrapPage shows which webhooks' Pods need which webhooks to be created.
type bootstrapPage struct {
	Cycles      []cycleRow
	MoreCycles  int
	Needs       []needRow
	MoreNeeds   int
	Independent int
	// Known is false where there is no webhook.
	Known bool
}

// cycleRow is a webhook in a deadlock, and how.
type cycleRow struct {
	Webhook link
	Steps   []string
	Certain bool
}

type needRow struct {
	From, To string
	Webhooks []link
	More     int
	Why      string
	Cycle    bool
}

// The bounds of the page.
const (
	maxCycles       = 100
	maxNeeds        = 300
	maxNeedWebhooks = 5
)

func (v *view) bootstrap(ctx context.Context) *bootstrapPage {
	needs, independent := v.Report.Needs(ctx)
	b := &bootstrapPage{Known: len(v.profiles) > 0, Independent: independent, MoreNeeds: max(len(needs)-maxNeeds, 0)}
	for _, p := range v.profiles {
		if p.Deadlock == nil {
			continue
		}
		if len(b.Cycles) == maxCycles {
			b.MoreCycles++
			continue
		}
		b.Cycles = append(b.Cycles, cycleRow{v.webhook(p.Ref), p.Deadlock.Steps, p.Deadlock.Certain})
	}
	for _, n := range needs[:len(needs)-b.MoreNeeds] {
		b.Needs = append(b.Needs, v.needRow(n))
	}
	return b
}

func (v *view) needRow(n start.Need) needRow {
	row := needRow{From: firstOf(n.From), To: firstOf(n.To), Cycle: n.Cycle, More: max(len(n.Webhooks)-maxNeedWebhooks, 0)}
	for _, ref := range n.Webhooks[:len(n.Webhooks)-row.More] {
		row.Webhooks = append(row.Webhooks, v.webhook(ref))
	}
	switch {
	case len(n.Webhooks) == 0:
		row.Why = "every Pod needs it " + n.Use
	case n.Certain:
		row.Why = "refuses " + n.What + " it"
	default:
		row.Why = "refuses " + n.What + " it, unless a label exempts it that is not known"
	}
	return row
}

// firstOf names a group of workloads by its first.
func firstOf(names []string) string {
	if len(names) > 1 {
		return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
	}
	return names[0]
}
