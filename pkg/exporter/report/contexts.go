package report

import (
	"slices"
	"strings"
)

// InContext returns the Document with the context of the kubeconfig at all that it
// holds.
func (d Document) InContext(name string) Document {
	d.Webhooks, d.Findings, d.Errors = slices.Clone(d.Webhooks), slices.Clone(d.Findings), slices.Clone(d.Errors)
	for i := range d.Webhooks {
		d.Webhooks[i].Context = name
	}
	for i := range d.Findings {
		d.Findings[i].Context = name
	}
	for i := range d.Errors {
		d.Errors[i].Context = name
	}
	return d
}

// Merge returns one Document of several clusters, with the findings sorted, the
// worst first.
func Merge(documents []Document) Document {
	out := Document{Version: documentVersion, Webhooks: []Webhook{}, Findings: []Finding{}, Errors: []Error{}}
	var servers []string
	for _, d := range documents {
		out.Webhooks = append(out.Webhooks, d.Webhooks...)
		out.Findings = append(out.Findings, d.Findings...)
		out.Errors = append(out.Errors, d.Errors...)
		out.Totals.Webhooks += d.Totals.Webhooks
		out.Totals.Findings.Critical += d.Totals.Findings.Critical
		out.Totals.Findings.Warning += d.Totals.Findings.Warning
		out.Totals.Findings.Info += d.Totals.Findings.Info
		if out.Taken.IsZero() || !d.Taken.IsZero() && d.Taken.Before(out.Taken) {
			out.Taken = d.Taken
		}
		if d.Server != "" && !slices.Contains(servers, d.Server) {
			servers = append(servers, d.Server)
		}
	}
	out.Server = strings.Join(servers, ", ")
	slices.SortStableFunc(out.Findings, func(a, b Finding) int { return int(b.Severity) - int(a.Severity) })
	return out
}

// inContexts inserts the context before the columns of findings of several
// clusters.
func inContexts(columns []column, findings []Finding) []column {
	if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Context != "" }) {
		return columns
	}
	return slices.Insert(slices.Clone(columns), 0, column{"CONTEXT", func(f Finding) string { return f.Context }})
}
