package page

import (
	"fmt"
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
	ID, Name, Type string
	State          backendState
	// Changed is when the registration changed last; "" where that is not known.
	Changed      string
	Findings     []findingRow
	MoreFindings int
	Facts        []fact
	Rules        []ruleRow
	MoreRules    int
	Conditions   []admissionv1.MatchCondition
	Reach        []classReach
	ReachKnown   bool
	Namespaces   *namespaces
	Backend      backendPart
	Observed     *observedPart
	// Incident are the parts of the impact card that an outage needs.
	Incident []impact.Section
	// WhatIf ask what happens when something goes away; none in a file.
	WhatIf  []link
	Summary string
}

// fact is a field of the registration.
type fact struct {
	Term  string
	Value string
	Link  link
}

type ruleRow struct{ Operations, Groups, Versions, Resources, Scope string }

// classReach are the resources of a class that the webhook is called for.
type classReach struct {
	Class     string
	Count     int
	Resources []link
	More      int
}

// namespaces are those that the webhook's namespaceSelector selects.
type namespaces struct {
	Selector       string
	Known          bool
	Count, Total   int
	Names          []string
	More           int
	ObjectSelector string
}

type backendPart struct {
	Title         string
	Detail        string
	State         backendState
	Service       []fact
	Endpoints     []endpointRow
	MoreEndpoints int
	Authorities   []certificateRow
	AuthorityNote string
	Serving       *certificateRow
	ProbeNote     string
}

type endpointRow struct{ Address, Ports, Node, Zone, Ready, Style string }

type certificateRow struct{ Subject, Until, Left, Style string }

type observedPart struct {
	Cells     report.Cells
	Source    string
	Threshold string
	Kinds     []fact
	// Spark are the failed calls of the last hour as in the table.
	Spark string
}

// limits bound what one page lists; the JSON reports have everything.
type limits struct{ findings, rules, resources, namespaces, endpoints, steps, ofCheck int }

// A file has many pages, so that each lists less.
var (
	servedLimits = limits{findings: 50, rules: 50, resources: 100, namespaces: 200, endpoints: 50, steps: 130, ofCheck: 50}
	fileLimits   = limits{findings: 10, rules: 20, resources: 30, namespaces: 30, endpoints: 10, steps: 25, ofCheck: 10}
)

func (l links) limits() limits {
	if l.file != nil {
		return fileLimits
	}
	return servedLimits
}

func (v *view) webhookPage(p *classify.Profile) *webhookPage {
	w := &webhookPage{
		ID: webhookName(p.Ref), Name: p.Name, Type: p.Type.Title(), State: stateOf(p),
		Facts: v.facts(p), Reach: v.reach(p), ReachKnown: p.KnowsReach(), Backend: v.backend(p), Observed: v.observedPart(p),
		Conditions: p.MatchConditions, Changed: timeText(p.Object.LastChanged),
	}
	w.Findings, w.MoreFindings = v.rows(v.ofWebhook[p.Ref], v.limits().findings)
	w.Summary = summary(w)
	w.rules(p, v.limits().rules)
	if p.Type != inventory.Conversion {
		w.Namespaces = namespacesOf(p, v.limits().namespaces)
	}
	if v.file == nil {
		w.WhatIf = v.whatIfs(p)
	}
	for _, s := range impact.NewCard(v.Report, p).Sections {
		if title := incident[s.ID]; title != "" {
			first := s
			first.Question = title
			switch s.ID {
			case "cluster-health":
				first.Answers = append(w.affected(p), s.Answers...)
			case "detection":
				first.Answers = nil // the findings above have them
			}
			w.Incident = append(w.Incident, first)
		}
	}
	return w
}

// affected says whose requests meet the webhook.
func (w *webhookPage) affected(p *classify.Profile) []string {
	who := fmt.Sprintf("requests for %s", inventory.Counted(len(p.Matched), "resource"))
	switch n := w.Namespaces; {
	case len(p.Matched) == 0:
		return nil
	case n == nil: // conversions know no namespaces
	case n.Known && n.Selector != "":
		who += fmt.Sprintf(" in %d of %s, listed below", n.Count, inventory.Counted(n.Total, "namespace"))
	case n.Selector == "":
		who += " in every namespace"
	}
	return []string{who}
}

// incident are the parts of the impact card that come first, with shorter titles.
var incident = map[string]string{"detection": "Look at it", "cluster-health": "Who is affected", "disabling": "Disable it", "resuming": "Put it back"}

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

// summary is the line under which a file folds the page.
func summary(w *webhookPage) string {
	counts := map[string]int{}
	for _, f := range w.Findings {
		if !f.Acknowledged {
			counts[f.Severity]++
		}
	}
	var parts []string
	for _, s := range classify.Severities {
		if n := counts[s.String()]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if len(parts) == 0 {
		return w.Type
	}
	return w.Type + ", " + strings.Join(parts, ", ")
}

func (v *view) facts(p *classify.Profile) []fact {
	out := []fact{{Term: "Registered by", Link: v.search(strings.TrimSpace(p.Object.Kind+" "+p.Configuration), url.Values{"q": {p.Configuration}})}}
	add := func(term, value string) {
		if value != "" {
			out = append(out, fact{Term: term, Value: value})
		}
	}
	add("Owner", p.Object.Owner.String())
	add("Audit log", strings.Join(v.Snapshot.AuditLog.Evidence(p.Series()), "; "))
	if p.Type != inventory.Conversion {
		add("failurePolicy", string(p.FailurePolicy))
		add("matchPolicy", string(p.MatchPolicy))
		add("sideEffects", string(p.SideEffects))
	}
	if p.Type == inventory.Mutating {
		add("reinvocationPolicy", string(p.Reinvocation))
	}
	add("Timeout", fmt.Sprintf("%g s", p.Timeout.Seconds()))
	add("Review versions", strings.Join(p.ReviewVersions, ", "))
	if p.CRD != nil {
		add("Kind", p.CRD.CustomKind)
		add("Storage version", p.CRD.StorageVersion)
	}
	if p.Approved {
		add("Approved by", p.Approval)
	}
	if p.Platform {
		add("Platform", "part of a stock cluster, or counted as such by the Policy")
	}
	add("Read from", report.Source(p.Object.Source).String())
	return out
}

func (w *webhookPage) rules(p *classify.Profile, most int) {
	for _, r := range p.Rules[:min(len(p.Rules), most)] {
		groups := slices.Clone(r.APIGroups)
		for i := range groups {
			if groups[i] == "" {
				groups[i] = `""`
			}
		}
		w.Rules = append(w.Rules, ruleRow{
			bounded(text.Strings(r.Operations)), bounded(groups), bounded(r.APIVersions), bounded(r.Resources),
			string(ptr.Deref(r.Scope, admissionv1.AllScopes)),
		})
	}
	w.MoreRules = len(p.Rules) - len(w.Rules)
}

// maxWords bounds the words of a cell.
const maxWords = 30

func bounded(words []string) string {
	if more := len(words) - maxWords; more > 0 {
		return strings.Join(words[:maxWords], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(words, ", ")
}

// reach are the resources by class; those of no class come last.
func (v *view) reach(p *classify.Profile) []classReach {
	var out []classReach
	classed := map[inventory.Resource]bool{}
	for _, class := range classify.Classes {
		resources := p.ByClass[class]
		for _, r := range resources {
			classed[r] = true
		}
		if len(resources) > 0 {
			out = append(out, v.classReach(string(class), resources))
		}
	}
	var others []inventory.Resource
	for _, m := range p.Matched {
		if !classed[m.Resource] {
			others = append(others, m.Resource)
		}
	}
	if len(others) > 0 {
		out = append(out, v.classReach("other", others))
	}
	return out
}

func (v *view) classReach(class string, resources []inventory.Resource) classReach {
	most := v.limits().resources
	c := classReach{Class: class, Count: len(resources), More: max(len(resources)-most, 0)}
	for _, r := range resources[:min(len(resources), most)] {
		c.Resources = append(c.Resources, v.resource(r))
	}
	return c
}

func namespacesOf(p *classify.Profile, most int) *namespaces {
	n := &namespaces{Known: p.Snapshot.NamespacesKnown && p.NamespaceSelector.Parsed != nil, Total: len(p.Snapshot.Namespaces)}
	if !p.NamespaceSelector.Empty() {
		n.Selector = p.NamespaceSelector.String()
	}
	if !p.ObjectSelector.Empty() {
		n.ObjectSelector = p.ObjectSelector.String()
	}
	if n.Known {
		names := impact.SelectedNamespaces(p)
		n.Count, n.More = len(names), max(len(names)-most, 0)
		n.Names = names[:min(len(names), most)]
	}
	return n
}

func (v *view) observedPart(p *classify.Profile) *observedPart {
	o := v.Snapshot.Observed
	if o == nil {
		return nil
	}
	b := o.Webhooks[p.Ref.Series()]
	out := &observedPart{Cells: report.ObservedCells(o, p.Ref), Source: report.SourceLine(o), Threshold: fmt.Sprintf("%g s", p.Threshold), Spark: sparkline(b.FailedBefore)}
	for kind, n := range b.Failures {
		out.Kinds = append(out.Kinds, fact{Term: kind, Value: fmt.Sprintf("%.4g", n)})
	}
	slices.SortFunc(out.Kinds, func(a, b fact) int { return strings.Compare(a.Term, b.Term) })
	if b.FailedOpen > 0 {
		out.Kinds = append(out.Kinds, fact{Term: "failed open", Value: fmt.Sprintf("%.4g", b.FailedOpen)})
	}
	return out
}
