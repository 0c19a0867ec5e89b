package page

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
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
	Top    *causeText
	Groups []group
	// Webhooks is how many there are.
	Webhooks int
	// Unread says that there may be more than can be read.
	Unread bool
	Rest   report.Blocks
}

// group are the causes of one urgency.
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
		Failing: bounded(failing),
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
	of := slices.DeleteFunc(slices.Clone(v.profiles),
		func(p *classify.Profile) bool { return v.failedShare(p) < failingShare })
	slices.SortStableFunc(of, func(a,
		b *classify.Profile,
	) int {
		return cmp.Compare(v.failedShare(b), v.failedShare(a))
	})
	return lists.Map(of, func(p *classify.Profile) string { return fmt.Sprintf("%s (%.3g %%)", p.Name, 100*v.failedShare(p)) })
}

// groups are the causes by urgency.
func (v *view) groups(causes []*cause) []group {
	var out []group
	most := maxCauses
	if v.inFile { // which leads to no other page
		most = maxRows
	}
	for when, title := range urgencies {
		of := slices.DeleteFunc(slices.Clone(causes),
			func(c *cause) bool { return c.urgency.When != report.When(when) })
		if len(of) == 0 {
			continue
		}
		g := group{Title: title, More: max(len(of)-most, 0), All: v.search("all webhooks", "")}
		for _, c := range of {
			g.Count += len(c.findings)
		}
		for _, c := range of[:min(len(of), most)] {
			g.Causes = append(g.Causes, v.describe(c))
		}
		out = append(out, g)
	}
	return out
}

// counted are the webhooks and the findings in a line.
func (v *view) counted() report.Blocks {
	acknowledged, severities := 0, map[classify.Severity]int{}
	for _, f := range v.Findings {
		if f.Acknowledged {
			acknowledged++
		} else {
			severities[f.Severity]++
		}
	}
	return report.Blocks{{Lines: report.Sentences(fmt.Sprintf("%s. Findings: %d critical, %d warning, %d info, %d acknowledged.",
		inventory.Counted(len(v.profiles),
			"webhook"), severities[classify.Critical], severities[classify.Warning], severities[classify.Info], acknowledged))}}
}

// alerts are those that fire, of all webhooks.
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

// sources are what was read, and what cannot be read.
func (v *view) sources() report.Blocks {
	unread, observed, inputs := report.Block{Heading: "Not readable, so unknown"}, report.Block{}, report.Block{Heading: "Inputs"}
	for _, e := range report.ByCause(report.NewErrors(v.Report.Errors)) {
		unread.Lines = append(unread.Lines, report.Line{Text: e.String(), Tone: report.Critical})
	}
	if line := report.SourceLine(v.Snapshot.Observed); line != "" {
		observed.Lines = []report.Line{{Text: line, Tone: report.Dim}}
	}
	for _, i := range v.Snapshot.Inputs {
		inputs.Lines = append(inputs.Lines, report.Line{Text: i.Path + " (" + i.Kind + ")"})
	}
	return report.Blocks{unread, observed, inputs}.NonEmpty().Bounded(report.MaxErrors)
}
