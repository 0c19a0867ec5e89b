package page

import (
	"cmp"
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
	Query    query
	Action   string
	InFile   bool
	Types    []option
	Classes  []option
	Checks   []option
	Severity []option

	Total, Matching int
	Rows            []tableRow
	Columns         []column
	Observed        string
	// First and Last are the positions of the rows among those that match.
	First, Last    int
	Previous, Next link
	// Omitted counts the rows that a file has no space for.
	Omitted int
}

// query is what the form of the table sends.
type query struct {
	Text, Type, Class, Finding, Severity, Namespace, Sort string
	Descending                                            bool
	Page                                                  int
}

// option is a choice of the form.
type option struct {
	Value, Text string
	Selected    bool
}

// column is a heading of the table.
type column struct {
	Title, Key string
	Numeric    bool
	// Sorted is the value of aria-sort; "" where the table is not sorted by it.
	Sorted string
	URL    string
}

type tableRow struct {
	Webhook         link
	Type            string
	Registered      string
	Policy          string
	Timeout         int
	Backend         string
	State           backendState
	Namespace       string
	Classes         []classCount
	Resources       int
	ReachKnown      bool
	Counts          []severityCount
	Checks          string
	ClassKeys       string
	WorstRank       int
	Observed        *report.Cells
	CallsPerSecond  float64
	P50, P99        float64
	Failing, Refuse float64
	// Slow says that p99 is above the threshold of the alerts.
	Slow bool
	// Spark are the points of a line of the failed calls of the last hour; "" where
	// there is no history, or nothing failed.
	Spark string
}

type classCount struct {
	Class string
	Count int
}

type severityCount struct {
	Severity string
	Count    int
}

// readQuery reads the form. What it does not understand is as if not given.
func readQuery(values url.Values) query {
	q := query{
		Text: values.Get("q"), Type: values.Get("type"), Class: values.Get("class"),
		Finding: values.Get("finding"), Severity: values.Get("severity"), Namespace: values.Get("namespace"),
		Sort: values.Get("sort"), Descending: values.Get("order") == "desc",
	}
	q.Page, _ = strconv.Atoi(values.Get("page"))
	q.Page = max(q.Page, 1)
	return q
}

// values are those that lead to the query again.
func (q query) values() url.Values {
	out := url.Values{}
	for key, value := range map[string]string{
		"q": q.Text, "type": q.Type, "class": q.Class, "finding": q.Finding,
		"severity": q.Severity, "namespace": q.Namespace, "sort": q.Sort,
	} {
		if value != "" {
			out.Set(key, value)
		}
	}
	if q.Descending {
		out.Set("order", "desc")
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

// sortKeys are what the table can be sorted by, ascending. Without one the worst
// are first.
var sortKeys = map[string]func(v *view, a, b *classify.Profile) int{
	"name":    func(_ *view, a, b *classify.Profile) int { return cmp.Compare(a.Name, b.Name) },
	"type":    func(_ *view, a, b *classify.Profile) int { return cmp.Compare(a.Type, b.Type) },
	"policy":  func(_ *view, a, b *classify.Profile) int { return cmp.Compare(a.FailurePolicy, b.FailurePolicy) },
	"timeout": func(_ *view, a, b *classify.Profile) int { return cmp.Compare(a.Timeout, b.Timeout) },
	"backend": func(_ *view, a, b *classify.Profile) int {
		return cmp.Compare(a.Webhook.Backend.String(), b.Webhook.Backend.String())
	},
	"resources": func(_ *view, a, b *classify.Profile) int { return cmp.Compare(len(a.Matched), len(b.Matched)) },
	"findings":  func(v *view, a, b *classify.Profile) int { return cmp.Compare(v.worst(a.Ref), v.worst(b.Ref)) },
	"calls":     byObserved(func(b inventory.Behavior) float64 { return b.CallsPerSecond }),
	"p50":       byObserved(func(b inventory.Behavior) float64 { return b.P50.Seconds }),
	"p99":       byObserved(func(b inventory.Behavior) float64 { return b.P99.Seconds }),
	"failing":   byObserved(inventory.Behavior.FailedShare),
	"refused":   byObserved(inventory.Behavior.RefusedShare),
}

func byObserved(value func(inventory.Behavior) float64) func(v *view, a, b *classify.Profile) int {
	return func(v *view, a, b *classify.Profile) int {
		o := v.Snapshot.Observed
		return cmp.Compare(value(o.Of(a.Ref.Series())), value(o.Of(b.Ref.Series())))
	}
}

func (v *view) sorted(q query, profiles []*classify.Profile) {
	compare, known := sortKeys[q.Sort]
	if !known {
		compare = func(v *view, a, b *classify.Profile) int { return cmp.Compare(v.worst(b.Ref), v.worst(a.Ref)) }
	}
	slices.SortStableFunc(profiles, func(a, b *classify.Profile) int {
		order := compare(v, a, b)
		if known && q.Descending {
			order = -order
		}
		return cmp.Or(order, a.Ref.Compare(b.Ref))
	})
}

// table returns the page of the table that the query asks for.
func (v *view) table(q query, size int) *table {
	var matching []*classify.Profile
	for _, p := range v.profiles {
		if v.matches(q, p) {
			matching = append(matching, p)
		}
	}
	v.sorted(q, matching)
	pages := max((len(matching)+size-1)/size, 1)
	q.Page = min(q.Page, pages)
	first := (q.Page - 1) * size
	last := min(first+size, len(matching))
	t := &table{
		Query: q, Action: v.to("webhooks"), InFile: v.file != nil,
		Total: len(v.profiles), Matching: len(matching), First: min(first+1, last), Last: last,
		Observed: report.SourceLine(v.Snapshot.Observed),
	}
	for _, p := range matching[first:last] {
		t.Rows = append(t.Rows, v.tableRow(p))
	}
	t.Columns = v.columns(q)
	v.options(t)
	if t.InFile {
		t.Omitted = len(matching) - last
		return t
	}
	if q.Page > 1 {
		t.Previous = v.pageLink("Previous", q, q.Page-1)
	}
	if q.Page < pages {
		t.Next = v.pageLink("Next", q, q.Page+1)
	}
	return t
}

func (v *view) pageLink(text string, q query, page int) link {
	q.Page = page
	return v.search(text, q.values())
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

func (v *view) columns(q query) []column {
	out := []column{{Title: "Webhook", Key: "name"}}
	if v.Snapshot.Observed != nil { // what happens comes before what is registered
		out = append(out, column{Title: "Failing", Key: "failing", Numeric: true}, column{Title: "p99", Key: "p99", Numeric: true})
	}
	out = append(
		out,
		column{Title: "Type", Key: "type"},
		column{Title: "Findings", Key: "findings"},
		column{Title: "On failure", Key: "policy"},
		column{Title: "Timeout", Key: "timeout", Numeric: true},
		column{Title: "Backend", Key: "backend"},
		column{Title: "Reach", Key: "resources"},
	)
	if v.Snapshot.Observed != nil {
		out = append(out, column{Title: "Refused", Key: "refused", Numeric: true}, column{Title: "Calls/s", Key: "calls", Numeric: true}, column{Title: "p50", Key: "p50", Numeric: true})
	}
	for i := range out {
		c := &out[i]
		next := q
		next.Sort, next.Page, next.Descending = c.Key, 1, c.Numeric || c.Key == "findings"
		if q.Sort == c.Key {
			c.Sorted, next.Descending = "ascending", !q.Descending
			if q.Descending {
				c.Sorted = "descending"
			}
		}
		c.URL = v.search("", next.values()).URL
	}
	return out
}

func (v *view) tableRow(p *classify.Profile) tableRow {
	row := tableRow{
		Webhook: v.webhook(p.Ref), Type: p.Type.Title(), Registered: p.Configuration,
		Policy: string(p.FailurePolicy), Timeout: int(p.Timeout.Seconds()),
		Backend: p.Webhook.Backend.String(), State: stateOf(p), Namespace: p.Webhook.Backend.Namespace(),
		Resources: len(p.Matched), ReachKnown: len(p.Matched) > 0 || p.KnowsReach(), WorstRank: int(v.worst(p.Ref)),
	}
	var keys, checks []string
	for _, class := range classify.Classes {
		if n := len(p.ByClass[class]); n > 0 {
			row.Classes = append(row.Classes, classCount{string(class), n})
			keys = append(keys, string(class))
		}
	}
	counts := map[classify.Severity]int{}
	for _, f := range v.ofWebhook[p.Ref] {
		checks = append(checks, f.Check.Name)
		if !f.Acknowledged {
			counts[f.Severity]++
		}
	}
	for _, s := range classify.Severities {
		if counts[s] > 0 {
			row.Counts = append(row.Counts, severityCount{s.String(), counts[s]})
		}
	}
	row.ClassKeys, row.Checks = strings.Join(keys, " "), strings.Join(checks, " ")
	v.observe(&row, p)
	return row
}

func (v *view) observe(row *tableRow, p *classify.Profile) {
	o := v.Snapshot.Observed
	if o == nil {
		return
	}
	cells, b := report.ObservedCells(o, p.Ref), o.Webhooks[p.Ref.Series()]
	row.Observed = &cells
	row.CallsPerSecond, row.P50, row.P99 = b.CallsPerSecond, b.P50.Seconds, b.P99.Seconds
	row.Failing, row.Refuse = b.FailedShare(), b.RefusedShare()
	row.Spark = sparkline(b.FailedBefore)
	row.Slow = b.P99.Known && b.P99.Seconds > p.Threshold
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
