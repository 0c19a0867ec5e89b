package page

import (
	"context"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// The bounds of a file: what is beyond them is counted, and in the JSON report.
const (
	maxFileRows     = 1000
	maxFileWebhooks = 100
)

// filePart is a section of a file, or a page that is folded.
type filePart struct {
	ID, Title, Summary string
	Folded             bool
	Body               template.HTML
}

// fileParts collects the parts, and the first error.
type fileParts struct {
	parts []filePart
	err   error
}

func (f *fileParts) add(part filePart, name string, data any) {
	if f.err == nil {
		part.Body, f.err = answer{template: name, data: data}.html()
		f.parts = append(f.parts, part)
	}
}

// WriteFile writes all pages as one file that needs no other; shown selects the
// webhooks that it is about.
func WriteFile(ctx context.Context, w io.Writer, r *classify.Report, shown func(inventory.Ref) bool, o Options) error {
	l := links{file: &contents{webhooks: map[inventory.Ref]bool{}}}
	v := newView(r, l, shown)
	worst := slices.Clone(v.profiles)
	v.worstFirst(worst)
	worst = worst[:min(len(worst), maxFileWebhooks)]
	for _, p := range worst {
		l.file.webhooks[p.Ref] = true
	}
	f := &fileParts{}
	f.add(filePart{ID: "overview", Title: "Overview"}, "overview", v.overview())
	f.add(filePart{ID: "webhooks", Title: "Webhooks"}, "webhooks", v.table(query{Page: 1}, maxFileRows))
	for _, p := range worst {
		f.add(filePart{ID: webhookName(p.Ref), Title: p.Name, Summary: v.summary(p), Folded: true}, "webhook", v.webhookPage(p))
	}
	if cycles(r) {
		f.add(filePart{ID: "bootstrap", Title: "Bootstrap"}, "bootstrap", v.bootstrap(ctx))
	}
	f.add(filePart{ID: "checks", Title: "Checks"}, "blocks", v.checkList())
	for _, c := range classify.Checks {
		f.add(filePart{ID: checkName(c.Name), Title: c.Name, Summary: c.Summary, Folded: true}, "check", v.checkPage(c))
	}
	if f.err != nil {
		return f.err
	}
	d := newDocument(r, "", l)
	d.File, d.Version, d.Status = embedded(), o.Version, statusOf(r, time.Time{})
	body, err := d.write(answer{title: "Webhook report", template: "file", data: f.parts})
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
		parts = append(parts, fmt.Sprintf("%d %s", c.Count, c.Label))
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
