package page

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

type table struct {
	Query           query
	Action          string
	Total, Matching int
	// Unread says that there may be more than can be read.
	Unread bool
	// Rows are the worst webhooks; Omitted counts the others.
	Rows     []tableRow
	Omitted  int
	Observed string
}

// query is what the form of the table sends, and the type in links of alerts and boards.
type query struct {
	Text string
	Type inventory.Type
}

type tableRow struct {
	Webhook                  link
	Type, Registered, Policy string
	Timeout                  int
	Backend                  string
	State                    backendState
	Reach                    string
	Counts                   []severityCount
	Observed                 *report.Cells
	// Slow says that p99 is above the threshold of the alerts.
	Slow bool
}

type severityCount struct {
	Severity string
	Count    int
}

// matches reports whether the text is in a name of the webhook or of its findings.
func (v *view) matches(q query, p *classify.Profile) bool {
	if q.Type != "" && p.Type != q.Type {
		return false
	}
	names := []string{p.Name, p.Configuration, p.Webhook.Backend.String(), p.Object.Owner.String()}
	names = append(names, lists.Map(v.ofWebhook[p.Ref], func(f *classify.Finding) string { return f.Check.Name })...)
	return slices.ContainsFunc(names, func(name string) bool { return contains(name, q.Text) })
}

func contains(name, part string) bool {
	return strings.Contains(strings.ToLower(name), strings.ToLower(part))
}

const maxRows = 100

// table has the webhooks that the query asks for, the worst first.
func (v *view) table(q query) *table {
	matching := lists.Filter(v.profiles, func(p *classify.Profile) bool { return v.matches(q, p) })
	v.worstFirst(matching)
	t := &table{
		Query: q, Action: v.link("webhooks"), Total: len(v.profiles), Matching: len(matching), Unread: len(v.Report.Errors) > 0,
		Observed: report.SourceLine(v.Snapshot.Observed),
	}
	t.Rows = lists.Map(matching[:min(len(matching), maxRows)], v.tableRow)
	t.Omitted = len(matching) - len(t.Rows)
	return t
}

func (v *view) tableRow(p *classify.Profile) tableRow {
	row := tableRow{
		Webhook: v.webhook(p.Ref), Type: p.Type.Title(), Registered: p.Configuration,
		Policy: string(p.FailurePolicy), Timeout: int(p.Timeout.Seconds()),
		Backend: p.Webhook.Backend.String(), State: v.stateOf(p), Reach: reached(p), Counts: v.counts(p.Ref),
	}
	if o := v.Snapshot.Observed; o != nil && len(o.Servers) > 0 {
		cells, p99 := report.ObservedCells(o, p.Ref), o.Of(p.Series()).P99
		row.Observed, row.Slow = &cells, p99.Known && p99.Seconds > p.Threshold
	}
	return row
}

const maxReached = 2

// reached names the resources that the webhook is called for, those of the gravest class
// first, and counts the others.
func reached(p *classify.Profile) string {
	var names []string
	for _, class := range classify.Classes {
		names = append(names, lists.Map(p.ByClass[class], func(r inventory.Resource) string { return r.String() })...)
	}
	for _, r := range p.Matched {
		names = append(names, r.String())
	}
	names = lists.Once(names)
	switch more := len(names) - maxReached; {
	case len(names) == 0 && p.KnowsReach():
		return "nothing"
	case len(names) == 0:
		return "not known"
	case more > 0:
		return fmt.Sprintf("%s +%d", strings.Join(names[:maxReached], ", "), more)
	}
	return strings.Join(names, ", ")
}

// counts are the findings of the webhook that are not acknowledged, by severity.
func (v *view) counts(ref inventory.Ref) []severityCount {
	counts := lists.Map(classify.Severities, func(s classify.Severity) severityCount {
		found := func(f *classify.Finding) bool { return f.Severity == s && !f.Acknowledged }
		return severityCount{s.String(), len(lists.Filter(v.ofWebhook[ref], found))}
	})
	return lists.Filter(counts, func(c severityCount) bool { return c.Count > 0 })
}

type backendState struct{ Text, Style string }

// stateOf is that of the webhook's backend, and of what else makes its calls fail.
func (v *view) stateOf(p *classify.Profile) backendState {
	s := p.State
	failing := slices.IndexFunc(v.ofWebhook[p.Ref], func(f *classify.Finding) bool {
		return f.Check.Fails() && f.Severity > classify.Info && !f.Acknowledged
	})
	switch {
	case failing >= 0 && s.Fault == inventory.Sound:
		return backendState{v.ofWebhook[p.Ref][failing].Check.Name, "bad"}
	case !s.Known:
		return backendState{"not known", "unknown"}
	case s.Fault != inventory.Sound:
		return backendState{string(s.Fault), "bad"}
	}
	return backendState{strconv.Itoa(s.Ready) + " ready", "ok"}
}

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

const maxFindings = 50

func (v *view) webhookPage(p *classify.Profile) *webhookPage {
	changed := v.sinceTime(p.Object.LastChanged)
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
	w.Registered = append(v.observed(p), v.registration(p)...)
	w.Backend, w.Reach = backend(p).Bounded(maxAnswered), reach(card)
	return w
}

// incident is what "impact" says first, with the commands that look at the cause, first the
// one that all pages have first.
func incident(card impact.Card, first string) report.Blocks {
	affected := report.NewImpact([]impact.Card{card}, card.Profile.Snapshot).Text(report.TextOptions{})[0].Lines
	commands := card.Profile.Commands()
	return report.Blocks{
		{Heading: "Who is affected", Lines: affected},
		{Heading: "Look at it", Commands: lists.Once(append([]string{first}, commands.Inspect...))},
		{Heading: "Disable it", Commands: []string{commands.Disable}},
		{Heading: "Put it back", Commands: append([]string{commands.Restore}, commands.Restart...)},
	}.NonEmpty()
}

// leaveTo leaves the commands of the blocks out of the findings: each stands once.
func (w *webhookPage) leaveTo(blocks report.Blocks) {
	for i, f := range w.Findings {
		var rest []report.FixPart
		for _, part := range f.Fix {
			isRepeated := part.Command &&
				slices.ContainsFunc(blocks, func(b report.Block) bool { return slices.Contains(b.Commands, part.Text) })
			if last := len(rest) - 1; isRepeated && last >= 0 && strings.HasSuffix(rest[last].Text, ":") {
				rest[last].Text += " see below"
			} else if !isRepeated {
				rest = append(rest, part)
			}
		}
		w.Findings[i].Fix = rest
	}
}

func (v *view) registration(p *classify.Profile) report.Blocks {
	others := v.search("", p.Configuration)
	out := report.Block{Heading: "Registration"}
	out.Add("Registered by", report.Line{Name: strings.TrimSpace(p.Object.Kind + " " + p.Configuration), URL: others.URL})
	out.Add("Owner", report.Line{Text: p.Object.Owner.String()})
	out.Add("failurePolicy", report.Line{Text: string(p.FailurePolicy)})
	out.Add("Timeout", report.Line{Text: text.Seconds(p.Timeout)})
	if p.Approved {
		out.Add("Approved by", report.Line{Text: p.Approval})
	}
	out.Add("Read from", report.Line{Text: p.Object.Source.String()})
	return report.Blocks{out}
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
