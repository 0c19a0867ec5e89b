package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// overview is the first page: what stops most, the other causes, then the rest.
type overview struct {
	Lead string
	// Failing are the webhooks whose calls fail, as observed.
	Failing string
	// Top is the cause that stops most; nil where nothing is broken.
	Top      *causeText
	Groups   []group
	Webhooks int
	// Unread says that there may be more than can be read.
	Unread bool
	Rest   report.Blocks
}

type group struct {
	Title  string
	Count  int
	Causes []*causeText
	More   int
	All    link
}

// maxCauses bounds the causes of one urgency on a page that is served.
const maxCauses = 7

// failingShare is the share of failed calls from which a webhook fails: that of the
// alerts.
const failingShare = 0.01

func (v *view) overview() *overview {
	causes := v.causes()
	failing := v.failing()
	o := &overview{
		Webhooks: len(v.profiles), Unread: len(v.Report.Errors) > 0, Lead: lead(causes, len(failing)),
		Failing: classify.JoinBounded(failing),
	}
	if len(causes) > 0 && causes[0].broken() {
		o.Top, causes = v.describe(causes[0]), causes[1:]
	}
	o.Groups = v.groups(causes)
	o.Rest = slices.Concat(v.counted(), v.alerts(), v.sources())
	return o
}

// lead says in ten words at most what fails now; failing is how many webhooks do as observed.
func lead(causes []*cause, failing int) string {
	webhooks, broken := map[inventory.Ref]bool{}, 0
	for _, c := range causes {
		if c.broken() {
			broken++
			for _, f := range c.findings {
				webhooks[f.Webhook] = true
			}
		}
	}
	switch {
	case broken > 1:
		return inventory.Counted(len(webhooks), "webhook") + " down; this one stops most"
	case broken == 1:
		return inventory.Counted(len(webhooks), "webhook") + " down"
	case failing > 0:
		return inventory.Counted(failing, "webhook") + " failing now"
	}
	return ""
}

// failing are the webhooks whose calls fail, the worst first, with the share of them.
func (v *view) failing() []string {
	profiles := lists.Filter(v.profiles, func(p *classify.Profile) bool { return v.failedShare(p) >= failingShare })
	slices.SortStableFunc(profiles,
		func(a, b *classify.Profile) int { return cmp.Compare(v.failedShare(b), v.failedShare(a)) })
	return lists.Map(profiles, func(p *classify.Profile) string { return fmt.Sprintf("%s (%.3g %%)", p.Name, 100*v.failedShare(p)) })
}

func (v *view) groups(causes []*cause) []group {
	var out []group
	most := maxCauses
	if v.inFile { // which leads to no other page
		most = maxRows
	}
	for when, title := range groupTitles {
		members := lists.Filter(causes, func(c *cause) bool { return c.urgency.When == report.When(when) })
		if len(members) == 0 {
			continue
		}
		g := group{Title: title, More: max(len(members)-most, 0), All: v.search("all webhooks", "")}
		for _, c := range members {
			g.Count += len(c.findings)
		}
		for _, c := range members[:min(len(members), most)] {
			g.Causes = append(g.Causes, v.describe(c))
		}
		out = append(out, g)
	}
	return out
}

func (v *view) counted() report.Blocks {
	n, webhooks := v.Totals(), inventory.Counted(len(v.profiles), "webhook")
	return report.Blocks{{Lines: report.Sentences(fmt.Sprintf("%s. Findings: %d critical, %d warning, %d info, %d acknowledged.",
		webhooks, n.Critical, n.Warning, n.Info, n.Acknowledged))}}
}

func (v *view) alerts() report.Blocks {
	if v.Snapshot.Observed == nil {
		return nil
	}
	t := &report.Table{
		Headings: []string{"Alert", "Severity", "Webhook", "Since"}, Tones: map[string]report.Tone{"critical": report.Critical, "warning": report.Warning},
	}
	for _, a := range v.Snapshot.Observed.Alerts {
		t.Rows = append(t.Rows, []string{a.Name, a.Severity, a.Series.Name, v.ago(a.Since)})
	}
	return v.linked(report.Blocks{{Heading: "Firing alerts", Table: t}}.NonEmpty()).Bounded(maxAnswered)
}

func (v *view) sources() report.Blocks {
	unread := lists.Map(report.ByCause(report.NewErrors(v.Report.Errors)),
		func(e report.Error) report.Line { return report.Line{Text: e.String(), Tone: report.Critical} })
	var observed report.Block
	observed.Add("", report.Line{Text: report.SourceLine(v.Snapshot.Observed), Tone: report.Dim})
	inputs := lists.Map(v.Snapshot.Inputs,
		func(i inventory.Input) report.Line { return report.Line{Text: i.Path + " (" + i.Kind + ")"} })
	return report.Blocks{
		{Heading: "Not readable, so unknown", Lines: unread}, observed, {Heading: "Inputs", Lines: inputs},
	}.NonEmpty().Bounded(report.MaxErrors)
}

type causeKey struct {
	check    *classify.Check
	severity classify.Severity
	service  inventory.Key
}

// cause is what findings have in common: a Service that cannot be called, else a check.
type cause struct {
	causeKey
	findings []*classify.Finding
	// profiles are the webhooks of the findings that are shown.
	profiles []*classify.Profile
	stops    []string
	urgency  report.Urgency
}

type causeText struct {
	Title, Summary, Severity string
	Stops                    []string
	Check                    link
	// Findings are the first of Count.
	Findings    []findingRow
	Count, More int
	All         link
	Since       since
	Owner       string
	Alerts      []string
	// Look shows the cause; "" for nothing.
	Look string
	// Note is for the ticket of an incident.
	Note string
}

func (c *cause) broken() bool { return c.urgency.When == report.BrokenNow }

var (
	urgencies = []string{report.BrokenNow: "Broken now", report.AtRisk: "At risk", report.ToReview: "To review"}
	// groupTitles are those below the cause that stops most.
	groupTitles = []string{report.BrokenNow: "Also broken", report.AtRisk: "At risk", report.ToReview: "To review"}
)

// since says for how long, and since when, as far as that is known.
type since struct{ What, For, At string }

// causes groups the findings that are not acknowledged: what fails now and stops most
// comes first.
func (v *view) causes() []*cause {
	keyOf := func(f *classify.Finding) causeKey {
		k, p := causeKey{check: f.Check, severity: f.Severity}, v.byRef[f.Webhook]
		if p != nil && f.Check.Name == string(p.State.Fault) {
			k.service = p.State.Service.Key
		}
		return k
	}
	open := lists.Filter(v.Findings, func(f *classify.Finding) bool { return !f.Acknowledged })
	out := lists.Map(lists.Group(open, keyOf), func(findings []*classify.Finding) *cause {
		c := &cause{causeKey: keyOf(findings[0]), findings: findings}
		profiles := lists.Map(findings, func(f *classify.Finding) *classify.Profile { return v.byRef[f.Webhook] })
		c.profiles = lists.Filter(profiles, func(p *classify.Profile) bool { return p != nil })
		c.weigh()
		return c
	})
	slices.SortStableFunc(out, func(a, b *cause) int { return a.urgency.Compare(b.urgency) })
	return out
}

// weigh finds what of the cluster stops, where the webhooks fail now.
func (c *cause) weigh() {
	most := 0
	for _, f := range c.findings {
		most = max(most, len(f.Stops))
	}
	c.stops = classify.StopsOf(c.findings)
	c.urgency = report.NewUrgency(c.check, c.severity, most)
}

const maxPerCause = 3

func (v *view) describe(c *cause) *causeText {
	first := c.findings[0]
	t := &causeText{
		Title: c.check.Name, Summary: c.check.Summary, Severity: c.severity.String(), Stops: c.stops,
		Check: v.check(c.check),
		Count: len(c.findings), All: v.search("all of them", c.check.Name), Alerts: v.alertsOn(c.profiles),
		Look: first.Look,
	}
	t.Findings, t.More = v.rows(c.findings, maxPerCause)
	switch {
	case c.service.Name != "":
		t.Title = classify.BackendName(c.profiles[0]) + " " + c.profiles[0].State.Detail
		t.Summary, _, _ = strings.Cut(first.Brief, ": ")
		t.All = v.search("all of them", c.service.String())
	case len(c.findings) > 1:
		t.Title, _, _ = strings.Cut(strings.TrimSuffix(c.check.Summary, "."), ": ")
		t.Summary = c.check.Name
	default:
		what, why, both := strings.Cut(cmp.Or(first.Brief, first.Message), ": ")
		if !both || !c.broken() {
			what, why = "", cmp.Or(first.Brief, first.Message)
		}
		t.Title, t.Summary = text.Capital(why), strings.TrimSuffix(first.Webhook.Name+": "+what, ": ")
	}
	if len(c.profiles) > 0 {
		t.Owner = c.profiles[0].Object.Owner.String()
	}
	if c.broken() && len(c.profiles) > 0 {
		t.Since = v.since(c.profiles)
	}
	t.once()
	t.Note = v.note(urgencies[c.urgency.When], t)
	return t
}

// once leaves each command, and a fix that several findings share, in one place. A command keeps
// the words before it: when to delete is more than the deletion.
func (t *causeText) once() {
	parts := map[report.FixPart]bool{{Text: t.Look, Command: true}: true}
	for i := range t.Findings {
		var fix []report.FixPart
		all := t.Findings[i].Fix
		for n, p := range all {
			if !parts[p] || !p.Command && n+1 < len(all) && all[n+1].Command && !parts[all[n+1]] {
				fix = append(fix, p)
			}
			parts[p] = true
		}
		t.Findings[i].Fix = fix
	}
}

// since is when the first of the webhooks began to fail: as the oldest of their alerts has it,
// or as this process saw it where that is older.
func (v *view) since(profiles []*classify.Profile) since {
	var begin time.Time
	older := func(t time.Time) bool { return !t.IsZero() && (begin.IsZero() || t.Before(begin)) }
	what := "Failing for at least"
	for _, a := range v.alertsOf(profiles) {
		if older(a.Since) {
			begin = a.Since
		}
	}
	for _, p := range profiles {
		if v.history == nil {
			break
		}
		if failedSince := v.history.FailingSince(p.Ref); older(failedSince) {
			if begin = failedSince; failedSince.After(v.history.Since()) {
				what = "Failing for"
			}
		}
	}
	if begin.IsZero() || !begin.Before(v.now) { // of a single look, nothing is known of before
		return since{}
	}
	out := v.sinceTime(begin)
	out.What = what
	return out
}

// sinceTime is for how long something is so; the zero since where that is unknown.
func (v *view) sinceTime(begin time.Time) since {
	if begin.IsZero() {
		return since{}
	}
	return since{For: spanText(max(v.now.Sub(begin), 0)), At: timeText(begin)}
}

func (v *view) alertsOf(profiles []*classify.Profile) []inventory.Alert {
	if v.Snapshot.Observed == nil {
		return nil
	}
	return lists.Filter(v.Snapshot.Observed.Alerts, func(a inventory.Alert) bool {
		return slices.ContainsFunc(profiles, func(p *classify.Profile) bool { return p.Series() == a.Series })
	})
}

func (v *view) alertsOn(profiles []*classify.Profile) []string {
	return lists.Distinct(lists.Map(v.alertsOf(profiles), func(a inventory.Alert) string {
		if a.Severity != classify.Critical.String() { // of a critical finding, too
			return fmt.Sprintf("%s (%s: does not page)", a.Name, a.Severity)
		}
		return fmt.Sprintf("%s (%s)", a.Name, a.Severity)
	}))
}

const maxNote = 400

// note is the cause for the ticket of an incident.
func (v *view) note(urgency string, t *causeText) string {
	var b strings.Builder
	add := func(label, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", label, text.Shorten(text.Clean(value), maxNote))
		}
	}
	add(urgency, t.Title)
	add("Stops", strings.Join(t.Stops, "; "))
	for _, f := range t.Findings {
		add("Webhook", f.Webhook.Text+" ("+f.Where+"): "+f.Message)
	}
	if t.More > 0 {
		add("More webhooks", fmt.Sprint(t.More))
	}
	if t.Since.At != "" {
		add(t.Since.What+" "+t.Since.For, "since "+t.Since.At)
	}
	add("Alerts", strings.Join(t.Alerts, ", "))
	add("Owner", t.Owner)
	add("First command", t.Look)
	add("Runbook", report.RunbookURL(t.Check.Text))
	add("Cluster", fmt.Sprintf("Kubernetes %s, as of %s", v.Snapshot.Server, timeText(v.AsOf())))
	return b.String()
}
