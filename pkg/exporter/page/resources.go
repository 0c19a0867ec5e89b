package page

import (
	"cmp"
	"maps"
	"net/url"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// resourceList is the page of all resources that webhooks are called for.
type resourceList struct {
	Rows []resourceRow
	More int
}

type resourceRow struct {
	Resource link
	Classes  []string
	Webhooks int
	// Worst is the worst case of its requests, where that was computed.
	Worst     string
	Operation string
	Namespace string
}

// maxResourceRows bounds the page of all resources.
const maxResourceRows = 1000

// classesOf are the classes of each resource that a webhook is called for.
func (v *view) classesOf() map[inventory.Resource][]string {
	out := map[inventory.Resource][]string{}
	seen := map[*inventory.Resource]bool{}
	for _, p := range v.profiles {
		for _, class := range classify.Classes {
			resources := p.ByClass[class]
			if len(resources) == 0 || seen[&resources[0]] { // webhooks with equal rules share the list
				continue
			}
			seen[&resources[0]] = true
			for _, r := range resources {
				if !slices.Contains(out[r], string(class)) {
					out[r] = append(out[r], string(class))
				}
			}
		}
	}
	return out
}

// callers counts the webhooks of each resource.
func (v *view) callers() map[inventory.Resource]int {
	lists := map[*admission.MatchedResource]int{}
	matched := map[*admission.MatchedResource][]admission.MatchedResource{}
	for _, p := range v.profiles {
		if len(p.Matched) > 0 {
			lists[&p.Matched[0]]++
			matched[&p.Matched[0]] = p.Matched
		}
	}
	out := map[inventory.Resource]int{}
	for first, n := range lists {
		for _, m := range matched[first] {
			out[m.Resource] += n
		}
	}
	return out
}

// worstCosts are the worst cases that were computed, by resource.
func (v *view) worstCosts() map[inventory.Resource]classify.Cost {
	out := map[inventory.Resource]classify.Cost{}
	for _, c := range v.Costs {
		if known, ok := out[c.Resource]; !ok || c.Total() > known.Total() {
			out[c.Resource] = c
		}
	}
	return out
}

// byImportance are the resources that webhooks are called for: the critical ones,
// those of the other classes, then the rest; those with more webhooks first.
func (v *view) byImportance() []inventory.Resource {
	callers, classes := v.callers(), v.classesOf()
	rank := func(r inventory.Resource) int {
		for i, class := range classify.Classes {
			if slices.Contains(classes[r], string(class)) {
				return i
			}
		}
		return len(classify.Classes)
	}
	out := slices.Collect(maps.Keys(callers))
	slices.SortFunc(out, func(a, b inventory.Resource) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(callers[b], callers[a]), a.Compare(b))
	})
	return out
}

func (v *view) resourceList() *resourceList {
	callers, classes, worst := v.callers(), v.classesOf(), v.worstCosts()
	resources := v.byImportance()
	l := &resourceList{More: max(len(resources)-maxResourceRows, 0)}
	for _, r := range resources[:min(len(resources), maxResourceRows)] {
		row := resourceRow{Resource: v.resource(r), Classes: classes[r], Webhooks: callers[r]}
		if c, ok := worst[r]; ok && c.Webhooks > 0 {
			row.Worst, row.Operation, row.Namespace = report.WorstCase(v.Matcher.Limits(c.Operation, r), c.Budget), string(c.Operation), c.Namespace
		}
		l.Rows = append(l.Rows, row)
	}
	return l
}

// resourcePage is the page of one resource: what a request to it meets.
type resourcePage struct {
	ID, Name   string
	Classes    []string
	Operations []operationRow
	Namespaced bool
	Namespace  string
	Operation  string
	// Action is where the form leads that chooses another request.
	Action  string
	InFile  bool
	Title   string
	Notes   []string
	Chain   *chain
	Skipped []skippedRow
	// MoreSkipped counts those whose rules do not cover the request, and those
	// that are not listed.
	MoreSkipped int
	// WithPolicies says that there are admission policies at all.
	WithPolicies bool
}

// operationRow is the cost of one operation.
type operationRow struct {
	link
	Selected bool
	Webhooks int
	Policies int
	Worst    string
}

type skippedRow struct {
	Link         link
	Type, Reason string
}

// maxSkipped bounds the webhooks and policies that are listed as skipped.
const maxSkipped = 50

// resourcePage shows the request of the operation in the namespace; without them
// the one that costs most.
func (v *view) resourcePage(r inventory.Resource, operation admission.Operation, namespace string) *resourcePage {
	p := &resourcePage{ID: resourceName(r), Name: r.String(), Classes: v.classesOf()[r], Action: v.to(resourceName(r)), InFile: v.file != nil}
	if namespace == "" {
		namespace = v.worstCosts()[r].Namespace
	}
	var shown admission.Chain
	found := false
	for _, op := range v.Matcher.Operations(r) {
		c, err := v.chainOf(r, op, namespace)
		if err != nil {
			continue
		}
		row := operationRow{link: v.operation(r, op, namespace), Webhooks: len(c.Steps), Policies: len(c.Policies), Worst: report.WorstCase(c.Limits, c.Budget())}
		p.Operations = append(p.Operations, row)
		chosen := op == operation
		worse := operation == "" && (!found || c.Budget().Total() > shown.Budget().Total())
		if chosen || worse || !found {
			shown, found = c, true
		}
	}
	if found {
		p.show(v, shown)
	}
	if operation != "" && p.Operation != string(operation) {
		p.Notes = append(p.Notes, string(operation)+" is no operation of it: "+p.Operation+" is shown")
	}
	return p
}

func (v *view) chainOf(r inventory.Resource, op admission.Operation, namespace string) (admission.Chain, error) {
	request, err := v.Matcher.OpenRequest(op, r, admission.Subject{Namespace: namespace})
	if err != nil {
		return admission.Chain{}, err
	}
	return v.Matcher.Chain(request), nil
}

// operation leads to another operation of the page; a file has only one.
func (v *view) operation(r inventory.Resource, op admission.Operation, namespace string) link {
	if v.file != nil {
		return link{Text: string(op)}
	}
	values := url.Values{"operation": {string(op)}}
	if namespace != "" {
		values.Set("namespace", namespace)
	}
	return link{string(op), v.to(resourceName(r)) + "?" + values.Encode()}
}

func (p *resourcePage) show(v *view, c admission.Chain) {
	e := report.NewExplanation(report.Explained{Chain: c, Snapshot: v.Snapshot})
	p.Operation, p.Namespace, p.Notes, p.Title = string(e.Request.Operation), e.Request.Namespace, e.Notes, e.Request.Title()
	p.Namespaced = p.Namespace != ""
	if _, exists := v.Snapshot.Namespaces[p.Namespace]; p.Namespaced && v.Snapshot.NamespacesKnown && !exists {
		p.Notes = append(p.Notes, "there is no namespace "+p.Namespace+": its labels are taken to be those of a new one")
	}
	for i := range p.Operations {
		p.Operations[i].Selected = p.Operations[i].Text == p.Operation
	}
	p.Chain, p.WithPolicies = v.chain(e), len(v.Snapshot.Policies) > 0
	for _, s := range e.Skipped {
		if s.Why == admission.ReasonRules || len(p.Skipped) == maxSkipped {
			p.MoreSkipped++
			continue
		}
		p.Skipped = append(p.Skipped, skippedRow{v.webhook(s.Ref), s.Type.Title(), s.Because()})
	}
}
