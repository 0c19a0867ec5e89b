package page

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// changesPerPage bounds a page of the changes, each of which is some kilobytes at most.
const changesPerPage = 15

// changesPage is the page of what changed of the registrations, the newest first.
type changesPage struct {
	// Since is when the changes began to be watched.
	Since string
	// Configuration is the one whose changes are shown; "" shows all.
	Configuration  string
	Rows           []changeRow
	First, Last    int
	Total          int
	All            link
	Previous, Next link
}

type changeRow struct {
	At     string
	Object link
	Edit   string
	// By and Written are who wrote the object last, and when.
	By, Written     string
	Webhooks        []changedWebhook
	MoreWebhooks    int
	Added, Resolved pastFindings
}

type changedWebhook struct {
	Webhook   link
	Sentences []string
}

// pastFindings are findings that came or went.
type pastFindings struct {
	Rows []findingRow
	More int
}

// changes shows those of a configuration where the address names one.
func (h *handler) changes(v *view, d *document, r *http.Request) bool {
	q := r.URL.Query()
	p := &changesPage{Configuration: q.Get("configuration"), All: link{"all changes", v.to("changes")}}
	var changes []impact.PastChange
	if h.History != nil {
		p.Since, changes = timeText(h.History.Since()), h.History.After(0)
	}
	if p.Configuration != "" {
		changes = slices.DeleteFunc(changes, func(c impact.PastChange) bool { return c.Configuration != p.Configuration })
	}
	slices.Reverse(changes)
	p.Total = len(changes)
	number, _ := strconv.Atoi(q.Get("page"))
	number = min(max(number, 1), max((p.Total+changesPerPage-1)/changesPerPage, 1))
	first := (number - 1) * changesPerPage
	p.First, p.Last = first+1, min(first+changesPerPage, p.Total)
	for _, c := range changes[first:p.Last] {
		p.Rows = append(p.Rows, v.changeRow(c))
	}
	to := func(text string, number int) link {
		q := url.Values{"page": {strconv.Itoa(number)}}
		if p.Configuration != "" {
			q.Set("configuration", p.Configuration)
		}
		return link{text, v.to("changes") + "?" + q.Encode()}
	}
	if number > 1 {
		p.Previous = to("Previous", number-1)
	}
	if p.Last < p.Total {
		p.Next = to("Next", number+1)
	}
	d.Changes = p
	return true
}

// changeRow leads to the webhooks that there still are.
func (v *view) changeRow(c impact.PastChange) changeRow {
	row := changeRow{At: timeText(c.At), Object: link{Text: c.Object()}, Edit: string(c.Edit), By: c.Written.Manager, Written: timeText(c.Written.At), MoreWebhooks: c.MoreWebhooks}
	if c.Others > 0 {
		row.Object.Text = c.String()
	}
	for _, w := range c.Webhooks {
		to := v.webhookNow(w.Ref)
		if row.Object.URL == "" {
			row.Object.URL = to.URL
		}
		row.Webhooks = append(row.Webhooks, changedWebhook{to, w.Sentences})
	}
	row.Added, row.Resolved = v.pastFindings(c.Added), v.pastFindings(c.Resolved)
	return row
}

// webhookNow leads to the webhook where there still is one.
func (v *view) webhookNow(ref inventory.Ref) link {
	if v.byRef[ref] == nil {
		return link{Text: ref.Name}
	}
	return v.webhook(ref)
}

func (v *view) pastFindings(f impact.PastFindings) pastFindings {
	out := pastFindings{More: f.More}
	for _, f := range f.Findings {
		out.Rows = append(out.Rows, findingRow{
			Severity: f.Severity.String(), Check: v.check(f.Check), Webhook: v.webhookNow(f.Webhook),
			Type: f.Webhook.Type.Title(), Registered: f.Webhook.Configuration, Message: text.Clean(f.Message),
		})
	}
	return out
}
