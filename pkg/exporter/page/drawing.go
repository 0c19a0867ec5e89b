package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// waterfall is the drawing of a chain: a bar for each webhook on one axis of
// seconds, as if each took all of its timeout.
type waterfall struct {
	Width, Height int
	Bars          []bar
	Marks         []mark
	Description   string
	More          string
	// total is how many seconds the axis has.
	total int
}

type bar struct {
	Label    string
	X, Y, W  int
	TextY    int
	Style    string
	Seconds  string
	SecondsX int
	// Tick is where the observed p99 ends; 0 without one.
	Tick int
}

// mark is a line of the axis.
type mark struct {
	X, Bottom int
	Label     string
	Deadline  bool
	// Anchor is where the label is attached.
	Anchor string
}

// The measures of a waterfall.
const (
	drawingWidth = 860
	// markWidth is that of the label of a mark.
	markWidth  = 32
	rowHeight  = 34
	barTop     = 16
	barHeight  = 12
	axisHeight = 28
	plotLeft   = 8
	plotWidth  = drawingWidth - 2*plotLeft - 44
	maxLabel   = 70
)

// draw places the bars: the mutating webhooks one after the other, those that may
// be called again once more, then the validating ones beside each other.
func (v *view) draw(e report.Explanation) *waterfall {
	webhooks := slices.DeleteFunc(slices.Clone(e.Chain), func(s report.ChainStep) bool { return s.Type.IsPolicy() })
	if len(webhooks) == 0 {
		return nil
	}
	// What comes after the API server has ended the request is not called.
	end := cmp.Or(e.EndsAfterSeconds, math.MaxInt)
	w := &waterfall{Width: drawingWidth, total: min(max(e.BudgetSeconds, 1), end)}
	begin, omitted, again := 0, 0, e.Budget.ReinvokedSeconds
	for i, s := range webhooks {
		if len(w.Bars) < v.limits().bars {
			w.add(bar{Label: s.Name, Style: "bar bar-" + s.Type.Title() + maybe(s)}, begin, s.TimeoutSeconds, s.Observed)
		} else {
			omitted++
		}
		if s.Type != inventory.Mutating {
			continue
		}
		begin += s.TimeoutSeconds
		if last := i+1 == len(webhooks) || webhooks[i+1].Type != inventory.Mutating; last && again > 0 {
			w.add(bar{Label: "called again if the object is changed after them", Style: "bar bar-mutating bar-maybe"}, begin, again, nil)
			begin += again
		}
	}
	w.finish(e.Deadlines, len(webhooks))
	if e.BudgetSeconds > end {
		w.More = fmt.Sprintf("The API server ends the request after %d s: of %d s, what would come later is not called. ", end, e.BudgetSeconds)
	}
	if omitted > 0 {
		w.More += fmt.Sprintf("… and %d more, which are called as well", omitted)
	}
	return w
}

// add draws a bar of so many seconds, with what was observed of its webhook, if anything.
func (w *waterfall) add(b bar, begin, seconds int, observed *report.Observed) {
	y := len(w.Bars) * rowHeight
	b.Label, b.Seconds = text.Shorten(b.Label, maxLabel), fmt.Sprintf("%d s", seconds)
	b.X, b.Y, b.TextY = plotLeft+w.scale(float64(begin)), y+barTop, y+barTop-4
	b.W = max(plotLeft+w.scale(float64(begin+seconds))-b.X, 2)
	b.SecondsX = b.X + b.W + 5
	if observed != nil && observed.P99Seconds != nil {
		b.Tick = b.X + min(w.scale(*observed.P99Seconds), b.W)
	}
	w.Bars = append(w.Bars, b)
}

// scale is how many pixels so many seconds take.
func (w *waterfall) scale(seconds float64) int {
	return int(plotWidth * min(seconds, float64(w.total)) / float64(w.total))
}

func maybe(s report.ChainStep) string {
	if s.Called == admission.Maybe {
		return " bar-maybe"
	}
	return ""
}

// finish draws the axis, and leaves out labels of deadlines that would overlap.
func (w *waterfall) finish(deadlines []report.Deadline, webhooks int) {
	bottom := len(w.Bars) * rowHeight
	w.Height = bottom + axisHeight
	for _, d := range deadlines {
		if x := plotLeft + w.scale(float64(d.AfterSeconds)); d.FromBegin() && d.AfterSeconds <= w.total {
			if n := len(w.Marks); n > 0 && x-w.Marks[n-1].X < markWidth {
				w.Marks[n-1].Label = ""
			}
			w.Marks = append(w.Marks, mark{X: x, Label: fmt.Sprintf("%d s", d.AfterSeconds), Deadline: true, Bottom: bottom, Anchor: "middle"})
		}
	}
	w.Marks = append(w.Marks, mark{X: plotLeft, Label: "0 s", Bottom: bottom, Anchor: "start"})
	w.Description = fmt.Sprintf("%s, at worst %d s: the mutating webhooks one after the other, then the validating ones at once.", inventory.Counted(webhooks, "webhook"), w.total)
}

// LabelX is where the label of a bar starts, so that it ends inside the drawing.
func (b bar) LabelX() int {
	const widest = 8 // pixels of a letter
	return max(min(b.X, drawingWidth-widest*utf8.RuneCountInString(b.Label)), plotLeft)
}

// The observed p99 is drawn across the bar.
func (b bar) TickTop() int    { return b.Y - 2 }
func (b bar) TickBottom() int { return b.Y + barHeight + 2 }
