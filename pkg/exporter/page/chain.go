package page

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// chain is what one request meets, in order, with the seconds that each webhook
// may take.
type chain struct {
	// Webhooks counts those of the Steps.
	Webhooks   int
	Worst      string
	Parts      []string
	Deadlines  []deadlineRow
	Steps      []stepRow
	MoreSteps  int
	Conversion *conversionStep
	Drawing    *waterfall
	Observed   string
	// PolicyCost says what the policies cost; "" without any.
	PolicyCost string
}

// conversionStep is the conversion that storing the object needs as well.
type conversionStep struct {
	Webhook link
	Detail  string
	Seconds string
	Maybe   bool
}

// stepRow is a step as "explain" has it.
type stepRow struct {
	report.ChainStep
	Link link
	// Kind is the type in words.
	Kind string
	// BroughtBy names the configuration or the binding.
	BroughtBy string
	// Seconds is the timeout; "" of a policy.
	Seconds string
	Cells   *report.Cells
}

type deadlineRow struct {
	Text   string
	Missed bool
}

// endOf is when the API server ends a request, whatever it waits for; never a CONNECT.
func endOf(op admission.Operation) time.Duration {
	if op == admission.Connect {
		return math.MaxInt64
	}
	deadlines := report.Deadlines(op)
	return deadlines[len(deadlines)-1].After
}

// worstText is how long a request waits: until the API server ends it, of what its
// webhooks may take.
func worstText(op admission.Operation, total time.Duration) string {
	if end := endOf(op); total > end {
		return text.Seconds(end) + " of " + text.Seconds(total)
	}
	return text.Seconds(total)
}

func (v *view) chain(c admission.Chain) *chain {
	budget := c.Budget()
	out := &chain{Webhooks: len(c.Steps), Worst: worstText(c.Request.Operation, budget.Total()), Drawing: v.draw(c), Observed: report.SourceLine(v.Snapshot.Observed)}
	if len(c.Policies) > 0 {
		out.PolicyCost = report.PolicyCost
		if out.Observed != "" {
			out.Observed += " " + report.PolicyCounts
		}
	}
	for _, part := range []struct {
		seconds time.Duration
		what    string
	}{
		{budget.Mutating, "mutating, one after the other"},
		{budget.Reinvocable, "called again"},
		{budget.Validating, "the slowest validating one"},
	} {
		if part.seconds > 0 {
			out.Parts = append(out.Parts, text.Seconds(part.seconds)+" "+part.what)
		}
	}
	for _, d := range report.Deadlines(c.Request.Operation) {
		out.Deadlines = append(out.Deadlines, deadlineRow{"the " + text.Seconds(d.After) + " " + d.Whose, budget.Total() >= d.After})
	}
	steps := report.NewExplanation(report.Explained{Chain: c}).Chain
	for _, s := range steps[:min(len(steps), v.limits().steps)] {
		out.Steps = append(out.Steps, v.step(s))
	}
	out.MoreSteps = len(steps) - len(out.Steps)
	if s := c.Conversion; s != nil {
		out.Conversion = &conversionStep{v.webhook(s.Webhook.Ref), s.Detail, text.Seconds(s.Webhook.Timeout), s.Match == admission.Maybe}
	}
	return out
}

func (v *view) step(s report.ChainStep) stepRow {
	ref := inventory.Ref{Type: s.Type, Configuration: s.Configuration, Name: s.Name}
	row := stepRow{ChainStep: s, Link: v.webhook(ref), Kind: typeTitle(s.Type), BroughtBy: s.Configuration}
	if s.Type.IsPolicy() {
		row.BroughtBy = boundBy(s)
	} else {
		row.Seconds = text.Seconds(time.Duration(s.TimeoutSeconds) * time.Second)
	}
	if o := v.Snapshot.Observed; o != nil {
		cells := report.ObservedCells(o, ref)
		row.Cells = &cells
	}
	return row
}

// boundBy names the binding of a policy and what it does with a failure; "" where it is
// the policy that decides.
func boundBy(s report.ChainStep) string {
	switch {
	case s.Binding == "":
		return ""
	case len(s.ValidationActions) == 0:
		return "binding " + s.Binding
	}
	return "binding " + s.Binding + ", " + strings.Join(s.ValidationActions, " and ")
}

// waterfall is the drawing of a chain: a bar for each webhook on one axis of
// seconds, as if each took all of its timeout.
type waterfall struct {
	Width, Height int
	Bars          []bar
	Marks         []mark
	Description   string
	More          string
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
func (v *view) draw(c admission.Chain) *waterfall {
	if len(c.Steps) == 0 {
		return nil
	}
	// What comes after the API server has ended the request is not called.
	end := endOf(c.Request.Operation)
	total := min(max(c.Budget().Total(), time.Second), end)
	w := &waterfall{Width: drawingWidth}
	scale := func(d time.Duration) int { return int(float64(plotWidth) * min(d, total).Seconds() / total.Seconds()) }
	addBar := func(label, style string, begin, length time.Duration, p99 inventory.Quantile) {
		y := len(w.Bars) * rowHeight
		b := bar{Label: shorten(label, maxLabel), X: plotLeft + scale(begin), Y: y + barTop, W: max(scale(begin+length)-scale(begin), 2), TextY: y + barTop - 4, Style: style, Seconds: text.Seconds(length)}
		b.SecondsX = b.X + b.W + 5
		if p99.Known {
			b.Tick = b.X + min(scale(time.Duration(p99.Seconds*float64(time.Second))), b.W)
		}
		w.Bars = append(w.Bars, b)
	}
	var begin time.Duration
	omitted, again := 0, c.Budget().Reinvocable
	for i, s := range c.Steps {
		if len(w.Bars) < v.limits().steps/2 {
			addBar(s.Webhook.Name, "bar bar-"+typeTitle(s.Webhook.Type)+maybe(s), begin, s.Webhook.Timeout, v.p99(s.Webhook.Ref))
		} else {
			omitted++
		}
		if s.Webhook.Type != inventory.Mutating {
			continue
		}
		begin += s.Webhook.Timeout
		if last := i+1 == len(c.Steps) || c.Steps[i+1].Webhook.Type != inventory.Mutating; last && again > 0 {
			addBar("called again if the object is changed after them", "bar bar-mutating bar-maybe", begin, again, inventory.Quantile{})
			begin += again
		}
	}
	w.finish(c, total, scale)
	if c.Budget().Total() > end {
		w.More = fmt.Sprintf("The API server ends the request after %s: of %s, what would come later is not called. ", text.Seconds(end), text.Seconds(c.Budget().Total()))
	}
	if omitted > 0 {
		w.More += fmt.Sprintf("… and %d more, which are called as well", omitted)
	}
	return w
}

// p99 is the observed quantile; unknown without a source.
func (v *view) p99(ref inventory.Ref) inventory.Quantile {
	return v.Snapshot.Observed.Of(ref.Series()).P99
}

func maybe(s admission.Step) string {
	if s.Match == admission.Maybe {
		return " bar-maybe"
	}
	return ""
}

// finish draws the axis, and moves labels that would end outside of the drawing.
func (w *waterfall) finish(c admission.Chain, total time.Duration, scale func(time.Duration) int) {
	bottom := len(w.Bars) * rowHeight
	w.Height = bottom + axisHeight
	for _, d := range report.Deadlines(c.Request.Operation) {
		if x := plotLeft + scale(d.After); d.After <= total {
			if n := len(w.Marks); n > 0 && x-w.Marks[n-1].X < markWidth {
				w.Marks[n-1].Label = ""
			}
			w.Marks = append(w.Marks, mark{X: x, Label: text.Seconds(d.After), Deadline: true, Bottom: bottom})
		}
	}
	w.Marks = append(w.Marks, mark{X: plotLeft, Label: "0 s", Bottom: bottom, Anchor: "start"})
	for i := range w.Marks {
		if w.Marks[i].Anchor == "" {
			w.Marks[i].Anchor = "middle"
		}
	}
	w.Description = fmt.Sprintf("%s, at worst %s: the mutating webhooks one after the other, then the validating ones at once.", inventory.Counted(len(c.Steps), "webhook"), text.Seconds(total))
}

// LabelX is where the label of a bar starts, so that it ends inside the drawing.
func (b bar) LabelX() int {
	const widest = 8 // pixels of a letter
	return max(min(b.X, drawingWidth-widest*utf8.RuneCountInString(b.Label)), plotLeft)
}

// The observed p99 is drawn across the bar.
func (b bar) TickTop() int    { return b.Y - 2 }
func (b bar) TickBottom() int { return b.Y + barHeight + 2 }

// shorten cuts a text in the middle: the end of a name matters as much as its
// beginning.
func shorten(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	half := (most - 1) / 2
	return string(runes[:half]) + "…" + string(runes[len(runes)-half:])
}
