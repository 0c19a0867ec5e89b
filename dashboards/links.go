package dashboards

import (
	"fmt"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// runbook leads from a row with the column check to its runbook.
var runbook = Link{Title: "Runbook of this check", URL: report.RunbookURL("${__data.fields.check}"), Outside: true}

// pageOf leads to a webhook on the status page, by Grafana's variables with its
// type and its name. The page finds it by both: few series carry the configuration.
func pageOf(webhookType, name string) Link {
	return Link{Title: "Status page of this webhook", URL: fmt.Sprintf("webhooks?type=${%s}&q=${%s}", webhookType, name), Outside: true, OnPage: true}
}

// onPage puts the links to the status page below its address, and leaves them
// out where it has none.
func (o Options) onPage(b Board) Board {
	if o.PageURL != "" && !slices.ContainsFunc(b.Links, func(l Link) bool { return l.OnPage }) {
		b.Links = append(slices.Clone(b.Links), Link{Title: "Status page", Outside: true, OnPage: true})
	}
	b.Links = o.links(b.Links)
	if o.PageURL != "" {
		b.ChangesPage = strings.TrimSuffix(o.PageURL, "/") + "/changes?configuration={{configuration}}"
	}
	return b.withLinks(o.links)
}

// withLinks is the board with what change makes of the links of its panels.
func (b Board) withLinks(change func([]Link) []Link) Board {
	b.Rows = slices.Clone(b.Rows)
	for i, row := range b.Rows {
		panels := slices.Clone(row.Panels)
		for j, p := range panels {
			panels[j].Links = change(p.Links)
			panels[j].Columns = slices.Clone(p.Columns)
			for k, c := range p.Columns {
				panels[j].Columns[k].Links = change(c.Links)
			}
		}
		b.Rows[i].Panels = panels
	}
	return b
}

func (o Options) links(links []Link) []Link {
	var out []Link
	for _, l := range links {
		switch {
		case !l.OnPage:
			out = append(out, l)
		case o.PageURL != "":
			l.URL = strings.TrimSuffix(o.PageURL, "/") + "/" + l.URL
			out = append(out, l)
		}
	}
	return out
}
