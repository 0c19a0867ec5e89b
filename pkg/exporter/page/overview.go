package page

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// overview is the first page: what stops most, the other causes, then the rest.
type overview struct {
	Lead    string
	Failing []failingRow
	More    int
	// Top is the cause that stops most; nil where nothing is broken.
	Top    *cause
	Groups []group
	// Nothing is what there is to say without a finding; Known is false where there
	// is no webhook either.
	Nothing string
	Known   bool
	Rest    report.Blocks
}

// group are the causes of one urgency.
type group struct {
	Title  string
	Count  int
	Causes []cause
	More   int
	All    link
}

// failingRow is a webhook whose calls fail, as observed.
type failingRow struct {
	Webhook link
	Share   string
}

// The bounds of the overview.
const (
	maxCauses  = 7
	maxFailing = 5
	maxAlerts  = 20
	maxMessage = 250
)

// failingShare is the share of failed calls from which a webhook fails: that of the
// alerts.
const failingShare = 0.01

func (v *view) overview() *overview {
	causes := v.causes()
	o := &overview{Nothing: "Nothing is found to be wrong.", Known: len(v.profiles) > 0}
	failing := v.failing()
	for _, p := range failing[:min(len(failing), maxFailing)] {
		o.Failing = append(o.Failing, failingRow{v.webhook(p.Ref), fmt.Sprintf("%.3g %%", 100*v.failedShare(p))})
	}
	o.More = len(failing) - len(o.Failing)
	o.Lead = lead(causes, len(failing))
	if len(causes) > 0 && causes[0].broken() {
		top := v.cause(causes[0])
		top.Note = v.note(top)
		o.Top, causes = &top, causes[1:]
	}
	o.Groups = v.groups(causes)
	if !o.Known {
		o.Nothing = "There is no webhook to say anything about."
	}
	o.Rest = slices.Concat(v.counted(), v.alerts(), v.conditions(), v.unread(), v.sources())
	return o
}

// lead says in a sentence what fails now.
func lead(causes []*caused, failing int) string {
	webhooks, broken := map[inventory.Ref]bool{}, 0
	for _, c := range causes {
		if c.broken() {
			broken++
			for _, f := range c.findings {
				webhooks[f.Webhook] = true
			}
		}
	}
	var parts []string
	if n := len(webhooks); n > 0 {
		parts = append(parts, inventory.Counted(n, "webhook")+" cannot be called")
		if broken > 1 {
			parts[0] += fmt.Sprintf(", for %d causes; this one stops most", broken)
		}
	}
	if failing > 0 {
		parts = append(parts, inventory.Counted(failing, "webhook")+" failing now, as observed")
	}
	return strings.Join(parts, "; ")
}

// failing are the webhooks whose calls fail, the worst first.
func (v *view) failing() []*classify.Profile {
	out := slices.DeleteFunc(slices.Clone(v.profiles), func(p *classify.Profile) bool { return v.failedShare(p) < failingShare })
	slices.SortStableFunc(out, func(a, b *classify.Profile) int { return cmp.Compare(v.failedShare(b), v.failedShare(a)) })
	return out
}

// groups are the causes by urgency.
func (v *view) groups(causes []*caused) []group {
	var out []group
	for urgency, title := range []string{"Broken now", "At risk", "To review"} {
		of := slices.DeleteFunc(slices.Clone(causes), func(c *caused) bool { return c.urgency() != urgency })
		if len(of) == 0 {
			continue
		}
		g := group{Title: title, More: max(len(of)-maxCauses, 0), All: v.search("all of them", url.Values{"severity": {of[0].severity.String()}})}
		for _, c := range of {
			g.Count += len(c.findings)
		}
		for _, c := range of[:min(len(of), maxCauses)] {
			g.Causes = append(g.Causes, v.cause(c))
		}
		out = append(out, g)
	}
	return out
}

// counted are the webhooks and the findings in a line.
func (v *view) counted() report.Blocks {
	types, severities := map[inventory.Type]int{}, map[string]int{}
	for _, p := range v.profiles {
		types[p.Type]++
	}
	for _, f := range v.findings {
		if f.Acknowledged {
			severities["acknowledged"]++
		} else {
			severities[f.Severity.String()]++
		}
	}
	return report.Blocks{{Lines: report.Sentences(fmt.Sprintf("%s: %d mutating, %d validating, %d conversion. %s: %d critical, %d warning, %d info, %d acknowledged.",
		inventory.Counted(len(v.profiles), "webhook"), types[inventory.Mutating], types[inventory.Validating], types[inventory.Conversion],
		inventory.Counted(len(v.findings), "finding"), severities["critical"], severities["warning"], severities["info"], severities["acknowledged"]))}}
}

// alerts are those that fire, of all webhooks.
func (v *view) alerts() report.Blocks {
	if v.Snapshot.Observed == nil {
		return nil
	}
	t := &report.Table{Headings: []string{"Alert", "Severity", "Webhook", "Since"}, Links: map[string]string{}, Tones: severityTones}
	for _, a := range v.Snapshot.Observed.Alerts {
		t.Rows = append(t.Rows, []string{a.Name, a.Severity, a.Series.Name, timeText(a.Since)})
	}
	for _, p := range v.profiles {
		t.Links[p.Name] = v.webhook(p.Ref).URL
	}
	return report.Blocks{{Heading: "Firing alerts", Table: t}}.NonEmpty().Bounded(maxAlerts)
}

// badStatus is the status of a condition that is bad: only Available is to be
// True.
func badStatus(c metav1.Condition) metav1.ConditionStatus {
	switch c.Type {
	case "Available", "Upgradeable":
		return metav1.ConditionFalse
	}
	return metav1.ConditionTrue
}

// conditions are those that are not as they should be. Degraded follows the errors a
// while later: until then it is no good news.
func (v *view) conditions() report.Blocks {
	errors := slices.ContainsFunc(v.Conditions, func(c metav1.Condition) bool {
		return strings.HasSuffix(c.Type, "Error") && c.Status == metav1.ConditionTrue
	})
	t := &report.Table{Headings: []string{"Condition", "Status", "Reason", "Message", "Since"}, Tones: map[string]report.Tone{"True": report.Critical, "False": report.Critical, "Unknown": report.Warning, "not yet": report.Warning, "progressing": report.Warning}}
	expected := 0
	for _, c := range v.Conditions {
		status, message := string(c.Status), c.Message
		switch {
		case c.Status == metav1.ConditionUnknown:
		case c.Type == "Degraded" && c.Status == metav1.ConditionFalse && errors:
			status, message = "not yet", "Turns True when an error has lasted for its time."
		case c.Status == badStatus(c) && c.Type == "Progressing":
			status = "progressing"
		case c.Status == badStatus(c):
		default:
			expected++
			continue
		}
		t.Rows = append(t.Rows, []string{c.Type, status, strings.ReplaceAll(c.Reason, "::", " "), text.Shorten(message, maxMessage), timeText(c.LastTransitionTime.Time)})
	}
	out := report.Block{Heading: "Conditions", Table: t}
	switch {
	case expected > 0 && len(t.Rows) > 0:
		out.Lines = []report.Line{{Text: inventory.Counted(expected, "other condition") + " as expected", Tone: report.Dim}}
	case expected > 0:
		out.Lines = []report.Line{{Text: inventory.Counted(expected, "condition") + " as expected", Tone: report.Good}}
	}
	return report.Blocks{out}.NonEmpty()
}

// unread is what cannot be read.
func (v *view) unread() report.Blocks {
	b := report.Block{Heading: "Not readable, so unknown"}
	for _, e := range v.Report.Errors {
		b.Lines = append(b.Lines, report.Line{Text: e.Error(), Tone: report.Critical})
	}
	return report.Blocks{b}.NonEmpty().Bounded(report.MaxErrors)
}

// sources are what was read and what it records.
func (v *view) sources() report.Blocks {
	inputs := report.Block{Heading: "Inputs"}
	for _, i := range v.Snapshot.Inputs {
		path := i.Path
		if path == "-" {
			path = "standard input"
		}
		inputs.Lines = append(inputs.Lines, report.Line{Text: path + " (" + i.Kind + ")"})
	}
	observed := report.Block{}
	if line := report.SourceLine(v.Snapshot.Observed); line != "" {
		observed.Lines = []report.Line{{Text: line, Tone: report.Dim}}
	}
	return slices.Concat(report.Blocks{observed}.NonEmpty(), report.AuditBlocks(v.Snapshot), report.Blocks{inputs}.NonEmpty())
}
