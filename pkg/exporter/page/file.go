package page

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// maxFileWebhooks bounds the pages of webhooks in a file; the JSON report has all.
const maxFileWebhooks = 100

// filePart is a section of a file, or a page that is folded.
type filePart struct {
	ID, Title, Summary string
	Folded             bool
	Body               template.HTML
}

// WriteFile writes all pages as one file that needs no other; shown selects the
// webhooks that it is about.
func WriteFile(w io.Writer, r *classify.Report, shown func(inventory.Ref) bool, o Options) error {
	l := links{file: map[inventory.Ref]bool{}}
	v := newView(r, l, shown)
	worst := slices.Clone(v.profiles)
	v.worstFirst(worst)
	worst = worst[:min(len(worst), maxFileWebhooks)]
	for _, p := range worst {
		l.file[p.Ref] = true
	}
	var parts []filePart
	var failed error
	add := func(part filePart, name string, data any) {
		body, err := answer{template: name, data: data}.html()
		part.Body, failed = body, cmp.Or(failed, err)
		parts = append(parts, part)
	}
	add(filePart{ID: "overview", Title: "Overview"}, "overview", v.overview())
	add(filePart{ID: "webhooks", Title: "Webhooks"}, "webhooks", v.table(query{}))
	for _, p := range worst {
		add(filePart{ID: webhookName(p.Ref), Title: p.Name, Summary: v.summary(p), Folded: true}, "webhook", v.webhookPage(p))
	}
	if cycles(r) {
		add(filePart{ID: "bootstrap", Title: "Bootstrap"}, "bootstrap", v.bootstrap())
	}
	for _, c := range classify.Checks {
		if len(v.ofCheck(c)) > 0 {
			add(filePart{ID: checkName(c.Name), Title: c.Name, Summary: c.Summary, Folded: true}, "check", v.checkPage(c))
		}
	}
	if failed != nil {
		return failed
	}
	d := newDocument(r, "", l)
	d.File, d.Version, d.Status = embedded(), o.Version, statusOf(r, time.Time{})
	body, err := d.write(answer{title: "Webhook report", template: "file", data: parts})
	if err != nil {
		return err
	}
	if _, err := w.Write(body); err != nil {
		return fmt.Errorf("writing page: %w", err)
	}
	return nil
}

// summary is the line under which a file folds the page of a webhook.
func (v *view) summary(p *classify.Profile) string {
	parts := []string{p.Type.Title()}
	for _, c := range v.counts(p.Ref) {
		parts = append(parts, fmt.Sprintf("%d %s", c.Count, c.Severity))
	}
	return strings.Join(parts, ", ")
}

// embedded are the style and the script, which the policy allows by their digests.
func embedded() *fileAssets {
	return &fileAssets{
		Policy: fmt.Sprintf("default-src 'none'; img-src data:; style-src 'sha256-%s'; script-src 'sha256-%s'; form-action 'none'; base-uri 'none'", digest(styleSheet), digest(script)),
		Style:  template.CSS(styleSheet),
		Script: template.JS(script),
	}
}
