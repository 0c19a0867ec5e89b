package page

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// pageSize is the number of webhooks on a page of the table.
const pageSize = 100

// table is the table of all webhooks, as the query asks for it.
type table struct {
	Query                            query
	Action                           string
	InFile                           bool
	Types, Classes, Checks, Severity []option
	Total, Matching                  int
	Rows                             []tableRow
	Observed                         string
	pager
	// Omitted counts the rows that a file has no space for.
	Omitted int
}

// pager leads through a list: First and Last are the positions of what is shown.
type pager struct {
	First, Last    int
	Previous, Next link
}

// paged is the page of so many things that the number asks for; to leads to another one.
func paged(number, size, total int, to func(text string, number int) link) pager {
	number = min(max(number, 1), max((total+size-1)/size, 1))
	p := pager{First: min((number-1)*size+1, total), Last: min(number*size, total)}
	if number > 1 {
		p.Previous = to("Previous", number-1)
	}
	if p.Last < total {
		p.Next = to("Next", number+1)
	}
	return p
}

// query is what the form of the table sends.
type query struct {
	Text, Type, Class, Finding, Severity, Namespace string
	Page                                            int
}

// option is a choice of the form.
type option struct {
	Value, Text string
	Selected    bool
}

type tableRow struct {
	Webhook                  link
	Type, Registered, Policy string
	Timeout                  int
	Backend                  string
	State                    backendState
	Classes                  []labeledCount
	Resources                int
	ReachKnown               bool
	Counts                   []labeledCount
	Observed                 *report.Cells
	// Slow says that p99 is above the threshold of the alerts.
	Slow bool
	// Spark are the points of a line of the failed calls of the last hour; "" where
	// there is no history, or nothing failed.
	Spark string
}

type labeledCount struct {
	Label string
	Count int
}

// readQuery reads the form. What it does not understand is as if not given.
func readQuery(values url.Values) query {
	q := query{
		Text: values.Get("q"), Type: values.Get("type"), Class: values.Get("class"),
		Finding: values.Get("finding"), Severity: values.Get("severity"), Namespace: values.Get("namespace"),
	}
	q.Page, _ = strconv.Atoi(values.Get("page"))
	return q
}

// values are those that lead to the query again.
func (q query) values() url.Values {
	out := url.Values{}
	for key, value := range map[string]string{
		"q": q.Text, "type": q.Type, "class": q.Class, "finding": q.Finding,
		"severity": q.Severity, "namespace": q.Namespace,
	} {
		if value != "" {
			out.Set(key, value)
		}
	}
	if q.Page > 1 {
		out.Set("page", strconv.Itoa(q.Page))
	}
	return out
}

// matches reports whether the webhook is one that the query asks for.
func (v *view) matches(q query, p *classify.Profile) bool {
	switch {
	case q.Type != "" && string(p.Type) != q.Type,
		q.Class != "" && len(p.ByClass[classify.Class(q.Class)]) == 0,
		q.Namespace != "" && p.Webhook.Backend.Namespace() != q.Namespace,
		!v.hasFinding(q, p.Ref):
		return false
	}
	return q.Text == "" || contains(p.Name, q.Text) || contains(p.Configuration, q.Text) ||
		contains(p.Webhook.Backend.String(), q.Text) || contains(p.Object.Owner.String(), q.Text)
}

func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// hasFinding reports whether one finding is of the check and the severity.
// Acknowledged ones are found by their check.
func (v *view) hasFinding(q query, ref inventory.Ref) bool {
	if q.Finding == "" && q.Severity == "" {
		return true
	}
	return slices.ContainsFunc(v.ofWebhook[ref], func(f *classify.Finding) bool {
		return (q.Finding == "" || f.Check.Name == q.Finding) && (q.Severity == "" || f.Severity.String() == q.Severity && !f.Acknowledged)
	})
}

// table returns the page of the table that the query asks for.
func (v *view) table(q query, size int) *table {
	matching := slices.DeleteFunc(slices.Clone(v.profiles), func(p *classify.Profile) bool { return !v.matches(q, p) })
	v.worstFirst(matching)
	t := &table{
		Query: q, Action: v.to("webhooks"), InFile: v.file != nil, Total: len(v.profiles), Matching: len(matching),
		Observed: report.SourceLine(v.Snapshot.Observed),
		pager: paged(q.Page, size, len(matching), func(text string, number int) link {
			q.Page = number
			return v.search(text, q.values())
		}),
	}
	for _, p := range matching[max(t.First-1, 0):t.Last] {
		t.Rows = append(t.Rows, v.tableRow(p))
	}
	if t.InFile {
		t.pager = pager{First: t.First, Last: t.Last}
		t.Omitted = len(matching) - t.Last
	}
	v.options(t)
	return t
}

// options are the choices of the form.
func (v *view) options(t *table) {
	for _, kind := range []inventory.Type{inventory.Mutating, inventory.Validating, inventory.Conversion} {
		t.Types = append(t.Types, option{string(kind), kind.Title(), t.Query.Type == string(kind)})
	}
	for _, class := range classify.Classes {
		t.Classes = append(t.Classes, option{string(class), string(class), t.Query.Class == string(class)})
	}
	for _, s := range classify.Severities {
		t.Severity = append(t.Severity, option{s.String(), s.String(), t.Query.Severity == s.String()})
	}
	found := map[*classify.Check]bool{}
	for _, f := range v.findings {
		found[f.Check] = true
	}
	for _, c := range classify.Checks {
		if found[c] || c.Name == t.Query.Finding {
			t.Checks = append(t.Checks, option{c.Name, c.Name, c.Name == t.Query.Finding})
		}
	}
}

func (v *view) tableRow(p *classify.Profile) tableRow {
	row := tableRow{
		Webhook: v.webhook(p.Ref), Type: p.Type.Title(), Registered: p.Configuration,
		Policy: string(p.FailurePolicy), Timeout: int(p.Timeout.Seconds()),
		Backend: p.Webhook.Backend.String(), State: stateOf(p),
		Resources: len(p.Matched), ReachKnown: len(p.Matched) > 0 || p.KnowsReach(),
	}
	for _, class := range classify.Classes {
		if n := len(p.ByClass[class]); n > 0 {
			row.Classes = append(row.Classes, labeledCount{string(class), n})
		}
	}
	row.Counts = v.counts(p.Ref)
	if o := v.Snapshot.Observed; o != nil {
		cells, b := report.ObservedCells(o, p.Ref), o.Webhooks[p.Ref.Series()]
		row.Observed, row.Spark = &cells, sparkline(b.FailedBefore)
		row.Slow = b.P99.Known && b.P99.Seconds > p.Threshold
	}
	return row
}

// counts are the findings of the webhook that are not acknowledged, by severity.
func (v *view) counts(ref inventory.Ref) []labeledCount {
	counts := map[classify.Severity]int{}
	for _, f := range v.ofWebhook[ref] {
		if !f.Acknowledged {
			counts[f.Severity]++
		}
	}
	var out []labeledCount
	for _, s := range classify.Severities {
		if counts[s] > 0 {
			out = append(out, labeledCount{s.String(), counts[s]})
		}
	}
	return out
}

// The measures of a sparkline.
const sparkWidth, sparkHeight = 55, 14

// sparkline draws values against the largest of them.
func sparkline(values []float64) string {
	if len(values) < 2 || slices.Max(values) <= 0 {
		return ""
	}
	var points []string
	for i, v := range values {
		points = append(points, fmt.Sprintf("%d,%.1f", i*sparkWidth/(len(values)-1), 1+(sparkHeight-2)*(1-v/slices.Max(values))))
	}
	return strings.Join(points, " ")
}

// backendState is whether a backend can be called.
type backendState struct{ Text, Style string }

func stateOf(p *classify.Profile) backendState {
	s := p.State
	switch {
	case !s.Known:
		return backendState{"not known", "unknown"}
	case s.Fault != inventory.Sound:
		return backendState{string(s.Fault), "bad"}
	}
	return backendState{strconv.Itoa(s.Ready) + " ready", "ok"}
}
