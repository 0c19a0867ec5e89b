package page

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// maxResourceRows bounds the page of all resources.
const maxResourceRows = 1000

// reached is a resource that webhooks are called for.
type reached struct {
	classes  []string
	webhooks int
}

func (v *view) reached() map[inventory.Resource]*reached {
	out := map[inventory.Resource]*reached{}
	for _, p := range v.profiles {
		for _, m := range p.Matched {
			if out[m.Resource] == nil {
				out[m.Resource] = &reached{}
			}
			out[m.Resource].webhooks++
		}
		for _, class := range classify.Classes {
			for _, r := range p.ByClass[class] {
				if of := out[r]; !slices.Contains(of.classes, string(class)) {
					of.classes = append(of.classes, string(class))
				}
			}
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
func byImportance(all map[inventory.Resource]*reached) []inventory.Resource {
	rank := func(r inventory.Resource) int {
		for i, class := range classify.Classes {
			if slices.Contains(all[r].classes, string(class)) {
				return i
			}
		}
		return len(classify.Classes)
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b inventory.Resource) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(all[b].webhooks, all[a].webhooks), a.Compare(b))
	})
}

// resourceList are all resources that webhooks are called for.
func (v *view) resourceList() report.Blocks {
	all, worst := v.reached(), v.worstCosts()
	t := &report.Table{Headings: []string{"Resource", "Classes", "Webhooks", "At worst", "Request"}, Links: map[string]string{}}
	for _, r := range byImportance(all) {
		row := []string{r.String(), strings.Join(all[r].classes, ", "), fmt.Sprint(all[r].webhooks), "", ""}
		if c, ok := worst[r]; ok && c.Webhooks > 0 {
			row[3], row[4] = report.WorstCase(v.Matcher.Limits(c.Operation, r), c.Budget), string(c.Operation)
			if c.Namespace != "" {
				row[4] += " in " + c.Namespace
			}
		}
		t.Rows, t.Links[r.String()] = append(t.Rows, row), v.resource(r).URL
	}
	return report.Blocks{{Table: t}}.Bounded(maxResourceRows)
}

// resourcePage is the page of one resource: what a request to it meets.
type resourcePage struct {
	Classes              []string
	Operations           []option
	Namespace, Operation string
	// Action is where the form leads that chooses another request.
	Action string
	Costs  report.Blocks
	Notes  []string
	request
}

// request is what becomes of one request.
type request struct {
	Title   string
	Drawing *waterfall
	Answer  report.Blocks
}

// resourcePage shows the request of the operation in the namespace; without them
// the one that costs most.
func (v *view) resourcePage(r inventory.Resource, operation admission.Operation, namespace string) *resourcePage {
	p := &resourcePage{Action: v.to(resourceName(r)), Namespace: namespace}
	if of := v.reached()[r]; of != nil {
		p.Classes = of.classes
	}
	if namespace == "" {
		p.Namespace = v.worstCosts()[r].Namespace
	}
	t := &report.Table{Headings: []string{"Operation", "Policies", "Webhooks", "At worst"}, Links: map[string]string{}}
	var shown admission.Chain
	found := false
	for _, op := range v.Matcher.Operations(r) {
		request, err := v.Matcher.OpenRequest(op, r, admission.Subject{Namespace: p.Namespace})
		if err != nil {
			continue
		}
		c := v.Matcher.Chain(request)
		t.Rows = append(t.Rows, []string{string(op), fmt.Sprint(len(c.Policies)), fmt.Sprint(len(c.Steps)), report.WorstCase(c.Limits, c.Budget())})
		t.Links[string(op)] = p.Action + "?" + url.Values{"operation": {string(op)}, "namespace": {p.Namespace}}.Encode()
		p.Operations = append(p.Operations, option{string(op), string(op), false})
		if worse := operation == "" && c.Budget().Total() > shown.Budget().Total(); op == operation || worse || !found {
			shown, found = c, true
		}
	}
	p.Costs = report.Blocks{{Table: t}}
	if !found {
		return p
	}
	p.request, p.Namespace, p.Operation = v.request(shown), shown.Request.Namespace, string(shown.Request.Operation)
	for i := range p.Operations {
		p.Operations[i].Selected = p.Operations[i].Value == p.Operation
	}
	if operation != "" && p.Operation != string(operation) {
		p.Notes = append(p.Notes, string(operation)+" is no operation of it: "+p.Operation+" is shown")
	}
	return p
}

// request is what "explain" says of it, below a drawing.
func (v *view) request(c admission.Chain) request {
	e := report.NewExplanation(report.Explained{Chain: c, Snapshot: v.Snapshot})
	if _, exists := v.Snapshot.Namespaces[e.Request.Namespace]; e.Request.Namespace != "" && v.Snapshot.NamespacesKnown && !exists {
		e.Notes = append(e.Notes, "there is no namespace "+e.Request.Namespace+": its labels are taken to be those of a new one")
	}
	e.Inputs = nil // the overview has them
	blocks := e.Text(report.TextOptions{})
	for _, b := range blocks {
		for i := range b.Lines {
			b.Lines[i].Text = strings.TrimSuffix(b.Lines[i].Text, " (-v)") // a page has no flags
		}
	}
	return request{blocks[0].Heading, v.draw(e), v.linked(blocks[1:]).Bounded(v.limits().rows)}
}
