package page

import (
	"cmp"
	"fmt"
	"math"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// timeline is the drawing of a chain: a bar for each webhook on one axis of seconds, as if
// each took all of its timeout. Places across it are in percent of its width.
type timeline struct {
	Height int
	Bars   []bar
	Marks  []mark
	More   string
	total  int
}

type bar struct {
	Label, Style string
	X, W, End    float64
	Y            int
}

type mark struct {
	X     float64
	Label string
}

// The measures of a timeline: of the width, plotted is for the seconds, and the rest for
// the last label.
const (
	rowHeight  = 34
	barTop     = 16
	axisHeight = 28
	maxLabel   = 70
	maxBars    = 65
	plotted    = 94
)

// draw places the bars: the mutating webhooks one after the other, those that may
// be called again once more, then the validating ones beside each other.
func draw(e report.Explanation) *timeline {
	webhooks := lists.Filter(e.Chain, func(s report.ChainStep) bool { return !s.Type.IsPolicy() })
	if len(webhooks) == 0 {
		return nil
	}
	// What comes after the API server has ended the request is not called.
	end := cmp.Or(e.EndsAfterSeconds, math.MaxInt)
	t := &timeline{total: min(max(e.BudgetSeconds, 1), end)}
	begin, reinvoked := 0, e.Budget.ReinvokedSeconds
	first := webhooks[:min(len(webhooks), maxBars)]
	for i, s := range first {
		style := s.Type.Title()
		if s.Called == admission.Maybe {
			style += " bar-maybe"
		}
		t.add(s.Name, style, begin, s.TimeoutSeconds)
		if s.Type != inventory.Mutating {
			continue
		}
		begin += s.TimeoutSeconds
		if last := i+1 == len(webhooks) || webhooks[i+1].Type != inventory.Mutating; last && reinvoked > 0 {
			t.add("called again if the object is changed after them", "mutating bar-maybe", begin, reinvoked)
			begin += reinvoked
		}
	}
	t.mark(e.Deadlines)
	if e.BudgetSeconds > end {
		t.More = fmt.Sprintf("The timeouts add up to %d s, but the API server ends the request after %d s and calls no later webhook. ", e.BudgetSeconds, end)
	}
	if omitted := len(webhooks) - len(first); omitted > 0 {
		t.More += fmt.Sprintf("… and %d more, which are called as well", omitted)
	}
	return t
}

func (t *timeline) add(name, style string, begin, seconds int) {
	x, end := t.xPosition(begin), t.xPosition(begin+seconds)
	t.Bars = append(t.Bars, bar{
		Label: fmt.Sprintf("%s, %d s", text.Shorten(name, maxLabel), seconds), Style: "bar bar-" + style,
		X: x, W: max(end-x, 0.2), End: end, Y: t.Height + barTop,
	})
	t.Height += rowHeight
}

func (t *timeline) xPosition(second int) float64 {
	return math.Round(plotted*10*float64(min(second, t.total))/float64(t.total)) / 10
}

func (t *timeline) mark(deadlines []report.Deadline) {
	t.Height += axisHeight
	for _, d := range deadlines {
		if d.FromBegin() && d.AfterSeconds <= t.total {
			t.Marks = append(t.Marks, mark{t.xPosition(d.AfterSeconds), fmt.Sprintf("%d s", d.AfterSeconds)})
		}
	}
}
