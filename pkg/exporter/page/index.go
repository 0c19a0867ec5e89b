package page

import (
	"net/url"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// view is a Report as one request sees it.
type view struct {
	*classify.Report
	links
	// profiles are the webhooks that are shown.
	profiles []*classify.Profile
	byRef    map[inventory.Ref]*classify.Profile
	// findings are those of the webhooks that are shown, the worst first.
	findings  []*classify.Finding
	ofWebhook map[inventory.Ref][]*classify.Finding
}

func newView(r *classify.Report, l links, shown func(inventory.Ref) bool) *view {
	v := &view{Report: r, links: l, byRef: map[inventory.Ref]*classify.Profile{}, ofWebhook: map[inventory.Ref][]*classify.Finding{}}
	for i := range r.Profiles {
		if shown(r.Profiles[i].Ref) {
			v.profiles = append(v.profiles, &r.Profiles[i])
			v.byRef[r.Profiles[i].Ref] = &r.Profiles[i]
		}
	}
	for i := range r.Findings {
		if f := r.Findings[i]; shown(f.Webhook) {
			v.findings = append(v.findings, f)
			v.ofWebhook[f.Webhook] = append(v.ofWebhook[f.Webhook], f)
		}
	}
	return v
}

func showAll(inventory.Ref) bool { return true }

// findingRow is a finding as all pages show it.
type findingRow struct {
	Severity     string
	Check        link
	Webhook      link
	Type         string
	Registered   string
	Message      string
	Fix          []report.FixPart
	Acknowledged bool
	Source       string
}

func (v *view) row(found *classify.Finding) findingRow {
	f := report.NewFinding(found, v.Snapshot)
	row := findingRow{
		Severity: f.Severity.String(), Check: v.check(found.Check), Webhook: v.webhook(f.Ref),
		Type: f.Type.Title(), Registered: f.Configuration,
		Message: f.Message, Fix: report.FixParts(f.Fix), Acknowledged: f.Acknowledged, Source: f.Source.String(),
	}
	if v.file == nil { // with the names of the webhook in the commands of its runbook
		row.Check.URL += "?" + url.Values{"type": {string(f.Type)}, "configuration": {f.Configuration}, "name": {f.Name}}.Encode()
	}
	return row
}

// rows are the first findings, and how many more there are.
func (v *view) rows(findings []*classify.Finding, most int) (rows []findingRow, more int) {
	for _, f := range findings[:min(len(findings), most)] {
		rows = append(rows, v.row(f))
	}
	return rows, max(len(findings)-most, 0)
}

// worst is the severity of the webhook's worst finding that is not acknowledged;
// 0 without one.
func (v *view) worst(ref inventory.Ref) classify.Severity {
	for _, f := range v.ofWebhook[ref] {
		if !f.Acknowledged {
			return f.Severity
		}
	}
	return 0
}

// severityClass is the style of a severity.
func severityClass(s string) string {
	switch s {
	case "critical", "warning", "info":
		return "sev sev-" + s
	}
	return "sev"
}
