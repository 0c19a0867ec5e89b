package page

import (
	"fmt"
	"html/template"
	"io"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// filePage is the overview and the table of webhooks.
type filePage struct {
	Overview *overview
	Webhooks *table
}

// newFilePage has what the Document selects of the Report.
func newFilePage(r *classify.Report, d report.Document) filePage {
	shown := map[inventory.Ref]bool{}
	for _, registered := range d.Registered() {
		shown[registered.Ref] = true
	}
	selected := *r
	selected.Findings = slices.DeleteFunc(slices.Clone(r.Findings),
		func(f *classify.Finding) bool { return !shown[f.Webhook] })
	v := newView(&selected, links{inFile: true})
	v.profiles = slices.DeleteFunc(v.profiles, func(p *classify.Profile) bool { return !shown[p.Ref] })
	return filePage{v.overview(), v.table(query{})}
}

// WriteFile writes the overview and the table of webhooks as one file that needs no other,
// of what the Document selects. The policy allows its style and script by their digests.
func WriteFile(w io.Writer, r *classify.Report, d report.Document, version string) error {
	file := document{File: newAssets(), Version: version, Project: report.Project, Status: statusOf(r, r.AsOf())}
	file.Status.Age = "" // it grows while the file lies around
	text, err := file.write(answer{title: "Webhook report", template: "file", data: newFilePage(r, d)})
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("writing page: %w", err)
	}
	return nil
}

func newAssets() *fileAssets {
	return &fileAssets{
		Policy: fmt.Sprintf("default-src 'none'; img-src data:; style-src 'sha256-%s'; script-src 'sha256-%s'; form-action 'none'; base-uri 'none'", digest(styleSheet), digest(script)),
		Style:  template.CSS(styleSheet),
		Script: template.JS(script),
	}
}
