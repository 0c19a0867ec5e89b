package page

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"

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
	Changed      string
	Since        since
	Findings     []findingRow
	MoreFindings int
	// Incident is what an outage needs: who is affected, and the commands.
	Incident report.Blocks
	// WhatIf ask what happens when something goes away; none in a file.
	WhatIf                       []link
	Registration, Backend, Reach report.Blocks
	Observed                     report.Blocks
	// Spark are the failed calls of the last hour as in the table.
	Spark string
}

// limits bound what one page lists; the JSON reports have everything.
type limits struct{ findings, rows, names, bars int }

// A file has many pages, so that each lists less.
var (
	servedLimits = limits{findings: 50, rows: 50, names: 200, bars: 65}
	fileLimits   = limits{findings: 10, rows: 10, names: 30, bars: 12}
)

func (l links) limits() limits {
	if l.file != nil {
		return fileLimits
	}
	return servedLimits
}

func (v *view) webhookPage(p *classify.Profile) *webhookPage {
	w := &webhookPage{Type: p.Type.Title(), State: stateOf(p), Changed: timeText(p.Object.LastChanged)}
	w.Findings, w.MoreFindings = v.rows(v.ofWebhook[p.Ref], v.limits().findings)
	if p.State.Fault != inventory.Sound {
		w.Since = v.since([]*classify.Profile{p})
	}
	if len(w.Findings) > 0 {
		w.Incident = w.without(incident(v.Report, p))
	}
	if v.file == nil {
		w.WhatIf = v.whatIfs(p)
	}
	most := v.limits().rows
	w.Registration, w.Backend, w.Reach = v.registration(p), backend(p).Bounded(most), v.reach(p).Bounded(most)
	w.Observed, w.Spark = v.observed(p), sparkline(v.Snapshot.Observed.Of(p.Series()).FailedBefore)
	return w
}

// incident is what "impact" says first, with the commands that look at the backend.
func incident(r *classify.Report, p *classify.Profile) report.Blocks {
	b := report.NewImpact([]impact.Card{impact.NewCard(r, p)}).Blocks()[0]
	commands := p.Commands()
	return report.Blocks{
		{Heading: "Who is affected", Lines: b.Lines},
		{Heading: "Look at it", Commands: commands.Inspect},
		{Heading: "Disable it", Commands: []string{commands.Save, commands.Disable}},
		{Heading: "Put it back", Commands: append([]string{commands.Restore}, commands.Restart...)},
	}.NonEmpty()
}

// without leaves out the commands that the findings have.
func (w *webhookPage) without(blocks report.Blocks) report.Blocks {
	for i := range blocks {
		blocks[i].Commands = slices.DeleteFunc(blocks[i].Commands, func(command string) bool {
			return slices.ContainsFunc(w.Findings, func(f findingRow) bool {
				return slices.Contains(f.Fix, report.FixPart{Text: command, Command: true})
			})
		})
	}
	return blocks.NonEmpty()
}

// whatIfs lead to what happens without the webhook, or its backend.
func (v *view) whatIfs(p *classify.Profile) []link {
	var out []link
	if p.Type != inventory.Conversion {
		out = append(out, v.whatIf("the configuration is deleted", "delete", p.Configuration))
	}
	if key := p.State.Service.Key; key.Name != "" {
		out = append(out, v.whatIf("Service "+key.String()+" goes down", "down", key.String()))
		seen := map[string]bool{"": true}
		for _, e := range p.Snapshot.Services[key].Endpoints {
			if !seen[e.Node] && len(seen) <= maxBackendNodes {
				seen[e.Node] = true
				out = append(out, v.whatIf("node "+e.Node+" is drained", "node", e.Node))
			}
		}
	}
	return out
}

// maxBackendNodes bounds the nodes of a backend that are asked about.
const maxBackendNodes = 5

// facts are lines with a label, without those that say nothing.
type facts []report.Line

func (f *facts) add(label, value string) {
	if value != "" {
		*f = append(*f, report.Line{Label: label, Text: value})
	}
}

func (v *view) registration(p *classify.Profile) report.Blocks {
	by := v.search("", url.Values{"q": {p.Configuration}})
	out := facts{{Label: "Registered by", Name: strings.TrimSpace(p.Object.Kind + " " + p.Configuration), URL: by.URL}}
	out.add("Owner", p.Object.Owner.String())
	out.add("Audit log", strings.Join(v.Snapshot.AuditLog.Evidence(p.Series()), "; "))
	if p.Type != inventory.Conversion {
		out.add("failurePolicy", string(p.FailurePolicy))
		out.add("matchPolicy", string(p.MatchPolicy))
		out.add("sideEffects", string(p.SideEffects))
	}
	if p.Type == inventory.Mutating {
		out.add("reinvocationPolicy", string(p.Reinvocation))
	}
	out.add("Timeout", fmt.Sprintf("%g s", p.Timeout.Seconds()))
	out.add("Review versions", strings.Join(p.ReviewVersions, ", "))
	if p.CRD != nil {
		out.add("Kind", p.CRD.CustomKind)
		out.add("Storage version", p.CRD.StorageVersion)
	}
	if p.Approved {
		out.add("Approved by", p.Approval)
	}
	if p.Platform {
		out.add("Platform", "part of a stock cluster, or counted as such by the Policy")
	}
	out.add("Read from", report.Source(p.Object.Source).String())
	return report.Blocks{{Heading: "Registration", Lines: out}}
}

// maxWords bounds the words of a cell.
const maxWords = 30

func bounded(words []string) string {
	if more := len(words) - maxWords; more > 0 {
		return strings.Join(words[:maxWords], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(words, ", ")
}

// reach is what the webhook is called for.
func (v *view) reach(p *classify.Profile) report.Blocks {
	t := &report.Table{Headings: []string{"Operations", "API groups", "Versions", "Resources", "Scope"}}
	for _, r := range p.Rules {
		groups := slices.Clone(r.APIGroups)
		for i := range groups {
			if groups[i] == "" {
				groups[i] = `""`
			}
		}
		t.Rows = append(t.Rows, []string{bounded(text.Strings(r.Operations)), bounded(groups), bounded(r.APIVersions), bounded(r.Resources), string(ptr.Deref(r.Scope, admissionv1.AllScopes))})
	}
	var conditions []report.Line
	for _, c := range p.MatchConditions {
		conditions = append(conditions, report.Line{Label: c.Name, Text: c.Expression})
	}
	out := report.Blocks{{Heading: "Rules", Table: t}, {Heading: "matchConditions", Lines: conditions}}.NonEmpty()
	out = append(out, v.resourcesOf(p))
	if p.Type != inventory.Conversion {
		out = append(out, v.namespacesOf(p))
	}
	return out
}

// resourcesOf are the resources with their classes; those of no class come last.
func (v *view) resourcesOf(p *classify.Profile) report.Block {
	t := &report.Table{Headings: []string{"Resource", "Classes"}, Links: map[string]string{}}
	classes := map[inventory.Resource][]string{}
	for _, class := range classify.Classes {
		for _, r := range p.ByClass[class] {
			classes[r] = append(classes[r], string(class))
		}
	}
	for _, classed := range []bool{true, false} {
		for _, m := range p.Matched {
			if r := m.Resource; len(classes[r]) > 0 == classed {
				t.Rows = append(t.Rows, []string{r.String(), strings.Join(classes[r], ", ")})
				t.Links[r.String()] = v.resource(r).URL
			}
		}
	}
	out := report.Block{Heading: "Called for " + inventory.Counted(len(p.Matched), "resource"), Table: t}
	switch {
	case len(p.Matched) > 0:
	case p.KnowsReach():
		out.Heading, out.Lines = "Called for", report.Sentences("It is called for nothing that the API server serves.")
	default:
		out.Heading, out.Lines = "Called for", report.Sentences("Not known: the input does not have the CustomResourceDefinitions of these API groups.")
	}
	return out
}

// namespacesOf are those that the webhook's namespaceSelector selects.
func (v *view) namespacesOf(p *classify.Profile) report.Block {
	known := p.Snapshot.NamespacesKnown && p.NamespaceSelector.Parsed != nil
	selector, total := p.NamespaceSelector.String(), len(p.Snapshot.Namespaces)
	out := report.Block{Heading: "Namespaces"}
	switch {
	case p.NamespaceSelector.Empty():
		out.Lines = report.Sentences("Without a namespaceSelector it is called in every namespace.")
	case !known:
		out.Lines = report.Sentences("Which namespaces have the labels " + selector + " is not known: the input does not have them all.")
	default:
		names := impact.SelectedNamespaces(p)
		most := v.limits().names
		out.Lines = report.Sentences(fmt.Sprintf("The namespaceSelector %s selects %d of %d namespaces:", selector, len(names), total), strings.Join(names[:min(len(names), most)], ", "))
		if more := len(names) - most; more > 0 {
			out.Lines[1].Text += fmt.Sprintf(" and %d more", more)
		}
	}
	if !p.ObjectSelector.Empty() {
		out.Lines = append(out.Lines, report.Line{Text: "Only objects with the labels " + p.ObjectSelector.String() + "."})
	}
	return out
}

// observed is what was measured of the webhook.
func (v *view) observed(p *classify.Profile) report.Blocks {
	o := v.Snapshot.Observed
	if o == nil {
		return nil
	}
	b, c := o.Webhooks[p.Ref.Series()], report.ObservedCells(o, p.Ref)
	lines := facts{}
	lines.add("Failing", c.Failing)
	if v.failedShare(p) >= failingShare {
		lines[0].Tone = report.Critical
	}
	lines.add("Refused", c.Refused)
	lines.add("p99", fmt.Sprintf("%s (the alerts' threshold is %g s)", c.P99, p.Threshold))
	lines.add("Calls/s", c.Calls)
	for _, kind := range slices.Sorted(maps.Keys(b.Failures)) {
		lines.add(kind, fmt.Sprintf("%.4g calls", b.Failures[kind]))
	}
	if b.FailedOpen > 0 {
		lines.add("failed open", fmt.Sprintf("%.4g calls", b.FailedOpen))
	}
	return report.Blocks{{Heading: "Observed", Lines: append(lines, report.Line{Text: report.SourceLine(o), Tone: report.Dim})}}
}
