package page

import (
	"context"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// The bounds of a file: what is beyond them is counted, and in the JSON report.
const (
	maxFileRows      = 1000
	maxFileWebhooks  = 100
	maxFileResources = 40
)

// WriteFile writes all pages as one file that needs no other; shown selects the
// webhooks that it is about.
func WriteFile(ctx context.Context, w io.Writer, r *classify.Report, shown func(inventory.Ref) bool, o Options) error {
	l := links{file: &contents{webhooks: map[inventory.Ref]bool{}, resources: map[inventory.Resource]bool{}}}
	v := newView(r, l, shown)
	worst := slices.Clone(v.profiles)
	v.sorted(query{}, worst)
	worst = worst[:min(len(worst), maxFileWebhooks)]
	for _, p := range worst {
		l.file.webhooks[p.Ref] = true
	}
	resources := v.byImportance()
	resources = resources[:min(len(resources), maxFileResources)]
	for _, resource := range resources {
		l.file.resources[resource] = true
	}
	d := newDocument("Webhook report", "", l)
	d.File, d.Version, d.Status = embedded(), o.Version, statusOf(r, time.Time{})
	d.Overview, d.Webhooks = v.overview(), v.table(query{Page: 1}, maxFileRows)
	for _, p := range worst {
		d.Cards = append(d.Cards, v.webhookPage(p))
	}
	d.MoreCards = len(v.profiles) - len(worst)
	d.Resources = v.resourceList()
	for _, resource := range resources {
		d.Chains = append(d.Chains, v.resourcePage(resource, "", ""))
	}
	d.Bootstrap, d.Checks = v.bootstrap(ctx), v.checkList()
	for _, c := range classify.Checks {
		d.Runbooks = append(d.Runbooks, v.checkPage(c))
	}
	return d.write(w)
}

// embedded are the style and the script, which the policy allows by their digests.
func embedded() *fileAssets {
	return &fileAssets{
		Policy: fmt.Sprintf("default-src 'none'; img-src data:; style-src 'sha256-%s'; script-src 'sha256-%s'; form-action 'none'; base-uri 'none'", digest(styleSheet), digest(script)),
		Style:  template.CSS(styleSheet),
		Script: template.JS(script),
	}
}
