package page

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// table is the table of all webhooks, as the query asks for it.
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

// maxRows bounds the table.
const maxRows = 100

// table has the webhooks that the query asks for, the worst first.
func (v *view) table(q query) *table {
	matching := slices.DeleteFunc(slices.Clone(v.profiles), func(p *classify.Profile) bool { return !v.matches(q, p) })
	v.worstFirst(matching)
	t := &table{
		Query: q, Action: v.link("webhooks"), Total: len(v.profiles), Matching: len(matching), Unread: len(v.Report.Errors) > 0,
		Observed: report.SourceLine(v.Snapshot.Observed),
	}
	for _, p := range matching[:min(len(matching), maxRows)] {
		t.Rows = append(t.Rows, v.tableRow(p))
	}
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

// maxReached is how many resources the table names of a webhook.
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
	switch {
	case len(names) > 0:
	case p.KnowsReach():
		return "nothing"
	default:
		return "not known"
	}
	out := lists.Once(names)
	if more := len(out) - maxReached; more > 0 {
		return fmt.Sprintf("%s +%d", strings.Join(out[:maxReached], ", "), more)
	}
	return strings.Join(out, ", ")
}

// counts are the findings of the webhook that are not acknowledged, by severity.
func (v *view) counts(ref inventory.Ref) []severityCount {
	counts := map[classify.Severity]int{}
	for _, f := range v.ofWebhook[ref] {
		if !f.Acknowledged {
			counts[f.Severity]++
		}
	}
	var out []severityCount
	for _, s := range classify.Severities {
		if counts[s] > 0 {
			out = append(out, severityCount{s.String(), counts[s]})
		}
	}
	return out
}

// backendState is whether a backend can be called.
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
