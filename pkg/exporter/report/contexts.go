package report

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
)

// InContext returns the Document with the context of the kubeconfig at all that it
// holds.
func (d Document) InContext(name string) Document {
	d.Webhooks = each(d.Webhooks, func(w *Webhook) { w.Context = name })
	d.Policies = each(d.Policies, func(p *AdmissionPolicy) { p.Context = name })
	d.Findings = each(d.Findings, func(f *Finding) { f.Context = name })
	d.Errors = each(d.Errors, func(e *Error) { e.Context = name })
	d.Contexts = []ContextTotals{newContextTotals(name, d)}
	return d
}

// each returns a copy of the list with a change of each element.
func each[T any](list []T, change func(*T)) []T {
	out := slices.Clone(list)
	for i := range out {
		change(&out[i])
	}
	return out
}

// Merge returns one Document of several clusters, with the findings sorted, the
// worst first.
func Merge(documents []Document) Document {
	out := Document{Version: documentVersion, Webhooks: []Webhook{}, Findings: []Finding{}, Errors: []Error{}}
	var servers []string
	for _, d := range documents {
		out.Webhooks = append(out.Webhooks, d.Webhooks...)
		out.Policies = append(out.Policies, d.Policies...)
		out.Findings = append(out.Findings, d.Findings...)
		out.Errors = append(out.Errors, d.Errors...)
		out.Contexts = append(out.Contexts, d.Contexts...)
		if out.Taken.IsZero() || !d.Taken.IsZero() && d.Taken.Before(out.Taken) {
			out.Taken = d.Taken
		}
		if d.Server != "" && !slices.Contains(servers, d.Server) {
			servers = append(servers, d.Server)
		}
	}
	out.Server, out.Totals = strings.Join(servers, ", "), out.totals()
	slices.SortStableFunc(out.Findings, func(a, b Finding) int { return int(b.Severity) - int(a.Severity) })
	slices.SortStableFunc(out.Contexts, ContextTotals.compare)
	return out
}

// newContextTotals returns those of the Document of one cluster. One without a time
// was not read: what it holds is unknown.
func newContextTotals(name string, d Document) ContextTotals {
	c := ContextTotals{Context: name, Server: d.Server, Errors: len(d.Errors)}
	if !d.Taken.IsZero() {
		c.Totals = &d.Totals
	}
	return c
}

// compare orders the worst first: what could not be read may be anything.
func (c ContextTotals) compare(o ContextTotals) int {
	switch {
	case c.Totals == nil && o.Totals == nil:
		return cmp.Compare(c.Context, o.Context)
	case c.Totals == nil:
		return -1
	case o.Totals == nil:
		return 1
	}
	a, b := c.Totals.Findings, o.Totals.Findings
	return cmp.Or(cmp.Compare(b.Critical, a.Critical), cmp.Compare(b.Warning, a.Warning),
		cmp.Compare(b.Info, a.Info), cmp.Compare(o.Errors, c.Errors), cmp.Compare(c.Context, o.Context))
}

// cells are the columns after the context.
func (c ContextTotals) cells() []string {
	if c.Totals == nil {
		return []string{"not read", "-", "-", "-", "-", strconv.Itoa(c.Errors)}
	}
	n := c.Totals.Findings
	out := []string{text.Clean(c.Server)}
	for _, count := range []int{c.Totals.Webhooks, n.Critical, n.Warning, n.Info, c.Errors} {
		out = append(out, strconv.Itoa(count))
	}
	return out
}

// ByContext has a line for each cluster, the worst first, and nothing where the Document is
// of one.
func (d Document) ByContext() *Table {
	t := &Table{Headings: []string{"Context", "Server", "Webhooks", "Critical", "Warning", "Info", "Unreadable"}}
	for _, c := range d.Contexts {
		t.Rows = append(t.Rows, append([]string{c.Context}, c.cells()...))
	}
	return t
}
