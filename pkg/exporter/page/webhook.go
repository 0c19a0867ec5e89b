package page

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// webhookPage is the page of one webhook.
type webhookPage struct {
	Type         string
	State        backendState
	Changed      since
	Since        since
	Findings     []findingRow
	MoreFindings int
	// Incident is what an outage needs: who is affected, and the commands.
	Incident                   report.Blocks
	Registered, Backend, Reach report.Blocks
}

// maxFindings bounds the findings on a page of a webhook or check.
const maxFindings = 50

func (v *view) webhookPage(p *classify.Profile) *webhookPage {
	changed := v.lasting(p.Object.LastChanged)
	if changed.What = "ago"; len(v.Snapshot.Inputs) > 0 {
		changed.What = "before the recording"
	}
	w := &webhookPage{Type: p.Type.Title(), State: v.stateOf(p), Changed: changed}
	w.Findings, w.MoreFindings = v.rows(v.ofWebhook[p.Ref], maxFindings)
	if p.State.Fault != inventory.Sound {
		w.Since = v.since([]*classify.Profile{p})
	}
	card := impact.NewCard(v.Report, p)
	if len(w.Findings) > 0 {
		w.Incident = incident(card, v.ofWebhook[p.Ref][0].Look)
		w.leaveTo(w.Incident)
	}
	w.Registered, w.Backend, w.Reach = append(v.observed(p),
		v.registration(p)...), backend(p).Bounded(maxAnswered), reach(card)
	return w
}

// incident is what "impact" says first, with the commands that look at the cause, first the
// one that all pages have first.
func incident(card impact.Card, first string) report.Blocks {
	b, commands := report.NewImpact([]impact.Card{card},
		card.Profile.Snapshot).Text(report.TextOptions{})[0], card.Profile.Commands()
	look := append([]string{first},
		slices.DeleteFunc(slices.Clone(commands.Inspect), func(command string) bool { return command == first })...)
	return report.Blocks{
		{Heading: "Who is affected", Lines: b.Lines},
		{Heading: "Look at it", Commands: look},
		{Heading: "Disable it", Commands: []string{commands.Disable}},
		{Heading: "Put it back", Commands: append([]string{commands.Restore}, commands.Restart...)},
	}.NonEmpty()
}

// leaveTo leaves the commands of the blocks out of the findings: each stands once.
func (w *webhookPage) leaveTo(blocks report.Blocks) {
	for i, f := range w.Findings {
		var kept []report.FixPart
		for _, part := range f.Fix {
			again := part.Command &&
				slices.ContainsFunc(blocks, func(b report.Block) bool { return slices.Contains(b.Commands, part.Text) })
			if last := len(kept) - 1; again && last >= 0 && strings.HasSuffix(kept[last].Text, ":") {
				kept[last].Text += " see below"
			} else if !again {
				kept = append(kept, part)
			}
		}
		w.Findings[i].Fix = kept
	}
}

func (v *view) registration(p *classify.Profile) report.Blocks {
	by := v.search("", p.Configuration)
	out := report.Block{Heading: "Registration"}
	out.Add("Registered by", report.Line{Name: strings.TrimSpace(p.Object.Kind + " " + p.Configuration), URL: by.URL})
	out.Add("Owner", report.Line{Text: p.Object.Owner.String()})
	out.Add("failurePolicy", report.Line{Text: string(p.FailurePolicy)})
	out.Add("Timeout", report.Line{Text: text.Seconds(p.Timeout)})
	if p.Approved {
		out.Add("Approved by", report.Line{Text: p.Approval})
	}
	out.Add("Read from", report.Line{Text: p.Object.Source.String()})
	return report.Blocks{out}
}

// maxWords bounds the words of a cell.
const maxWords = 5

func bounded(words []string) string {
	if more := len(words) - maxWords; more > 0 {
		return strings.Join(words[:maxWords], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(words, ", ")
}

// reach is what the webhook is called for, as its card says.
func reach(card impact.Card) report.Blocks {
	p, out := card.Profile, report.Block{Heading: "Called for"}
	for _, s := range card.Sections {
		if s.ID == "adds" {
			out.Lines = report.Sentences(s.Answers...)
		}
	}
	nothing := "Not known: the input does not have the CustomResourceDefinitions of these API groups."
	if p.KnowsReach() {
		nothing = "It is called for nothing that the API server serves."
	}
	if len(p.Matched) == 0 {
		out.Lines = append(out.Lines, report.Line{Text: nothing, Tone: report.Warning})
	}
	return report.Blocks{out}
}

// observed is what was measured of the webhook.
func (v *view) observed(p *classify.Profile) report.Blocks {
	o := v.Snapshot.Observed
	if o == nil || len(o.Servers) == 0 {
		return nil
	}
	c, failing, out := report.ObservedCells(o, p.Ref), report.Plain, report.Block{Heading: "Observed"}
	if v.failedShare(p) >= failingShare {
		failing = report.Critical
	}
	out.Add("Failing", report.Line{Text: c.Failing, Tone: failing})
	out.Add("Refused", report.Line{Text: c.Refused})
	out.Add("p99", report.Line{Text: fmt.Sprintf("%s (the alerts' threshold is %g s)", c.P99, p.Threshold)})
	out.Add("Calls/s", report.Line{Text: c.Calls})
	out.Add("", report.Line{Text: report.SourceLine(o), Tone: report.Dim})
	return report.Blocks{out}
}

// backend is what is behind the webhook, and the certificates of its CA bundle and the one
// that was served where that was looked at.
func backend(p *classify.Profile) report.Blocks {
	out := report.Block{Heading: "Backend", Lines: []report.Line{{Name: p.Webhook.Backend.String(), Text: p.State.Detail}}}
	out.Add("Readiness", report.Line{Text: classify.ReadyElsewhere(p)})
	t := &report.Table{Headings: []string{"Certificate", "State"}, Tones: map[string]report.Tone{}}
	add := func(subject string, notBefore, until time.Time, faults ...string) {
		state, tone := validity(notBefore, until, p.Snapshot.Taken)
		for _, fault := range faults {
			if fault != "" {
				state, tone = state+"; "+fault, report.Critical
			}
		}
		state += until.UTC().Format(", 2006-01-02 15:04 UTC")
		t.Rows, t.Tones[state] = append(t.Rows, []string{subject, state}), tone
	}
	if c := p.Snapshot.Probes[p.Ref].Certificate; c != nil {
		add("serving certificate", c.NotBefore, c.NotAfter, c.Untrusted, c.Misnamed)
	}
	if a := p.Webhook.Backend.Authority; a != nil {
		for _, c := range a.Certificates {
			add("CA "+c.Subject, c.NotBefore, c.NotAfter)
		}
	}
	return report.Blocks{out, {Heading: "Certificates", Table: t}}.NonEmpty()
}

// expiresSoon marks certificates that expire within it.
const expiresSoon = 30 * 24 * time.Hour

func validity(notBefore, until, now time.Time) (string, report.Tone) {
	switch left := until.Sub(now); {
	case now.Before(notBefore):
		return "not valid yet", report.Critical
	case left < 0:
		return "expired " + duration.HumanDuration(-left) + " ago", report.Critical
	case left < expiresSoon:
		return "expires in " + duration.HumanDuration(left), report.Warning
	default:
		return "expires in " + duration.HumanDuration(left), report.Good
	}
}
