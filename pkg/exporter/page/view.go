package page

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// view is a Report as one request sees it.
type view struct {
	*classify.Report
	links
	// now is the time for which it is; of a recording, that of the record.
	now time.Time
	// history knows since when webhooks fail; nil without it.
	history   *impact.History
	profiles  []*classify.Profile
	byRef     map[inventory.Ref]*classify.Profile
	ofWebhook map[inventory.Ref][]*classify.Finding
}

func newView(r *classify.Report, l links) *view {
	v := &view{
		Report: r, links: l, now: r.AsOf(), profiles: r.Profiles,
		byRef:     r.ByRef(),
		ofWebhook: map[inventory.Ref][]*classify.Finding{},
	}
	for _, f := range r.Findings {
		v.ofWebhook[f.Webhook] = append(v.ofWebhook[f.Webhook], f)
	}
	return v
}

// findingRow is a finding as all pages show it.
type findingRow struct {
	report.Finding
	Check, Webhook link
	Where          string
	Fix            []report.FixPart
}

func (v *view) row(found *classify.Finding) findingRow {
	f := report.NewFinding(found)
	row := findingRow{
		Finding: f, Check: v.check(found.Check), Webhook: v.webhook(f.Ref), Fix: report.FixParts(f.Fix),
		Where: f.Type.Title() + ", configuration " + f.Configuration + f.AlertNote(),
	}
	if f.Source.File != "" {
		f.Source.File = path.Base(f.Source.File)
		row.Where += ", " + f.Source.String()
	}
	return row
}

// rows are the first findings, and how many more there are.
func (v *view) rows(findings []*classify.Finding, most int) (rows []findingRow, more int) {
	return lists.Map(findings[:min(len(findings), most)], v.row), max(len(findings)-most, 0)
}

// ago is a time, and how long ago it is.
func (v *view) ago(t time.Time) string {
	layout := "2006-01-02 15:04 UTC"
	if v.now.Sub(t) < 12*time.Hour {
		layout = "15:04 UTC"
	}
	return fmt.Sprintf("%s, %s ago", t.UTC().Format(layout), spanText(max(v.now.Sub(t), 0)))
}

// worstFirst sorts webhooks as the overview has their causes, then by the share of calls that
// fail.
func (v *view) worstFirst(profiles []*classify.Profile) {
	place := map[inventory.Ref]int{}
	causes := v.causes()
	for i, c := range slices.Backward(causes) {
		for _, f := range c.findings {
			place[f.Webhook] = i - len(causes)
		}
	}
	slices.SortStableFunc(profiles, func(a, b *classify.Profile) int {
		return cmp.Or(cmp.Compare(place[a.Ref], place[b.Ref]), cmp.Compare(v.failedShare(b), v.failedShare(a)),
			a.Ref.Compare(b.Ref))
	})
}

func (v *view) failedShare(p *classify.Profile) float64 {
	return v.Snapshot.Observed.Of(p.Series()).FailedShare()
}

// linked leads from the webhooks and checks that an answer names to their pages.
func (v *view) linked(blocks report.Blocks) report.Blocks {
	addresses := map[string]string{}
	for _, c := range classify.Checks {
		addresses[c.Name] = v.check(c).URL
	}
	for _, p := range slices.Backward(v.profiles) { // of one name the first
		addresses[p.Name] = v.webhook(p.Ref).URL
	}
	for i := range blocks {
		if t := blocks[i].Table; t != nil {
			t.Links = addresses
		}
		for n, l := range blocks[i].Lines {
			first, _, _ := strings.Cut(l.Name, " and ") // "NAME and 2 others" leads to the first
			words := strings.Fields(strings.TrimSuffix(first, ":"))
			if len(words) > 0 { // "critical CHECK:" is one, too
				blocks[i].Lines[n].URL = addresses[words[len(words)-1]]
			}
		}
	}
	return blocks
}

// link is a text that leads to a page; without a URL it leads nowhere.
type link struct{ Text, URL string }

type links struct {
	// root leads from the page to "/", relative so that a proxy may add a prefix.
	root string
	// inFile says that there are no other pages: links lead to runbooks alone.
	inFile bool
}

// link is the address of the page with the name; "" where there is none.
func (l links) link(name string) string {
	if l.inFile {
		return ""
	}
	return l.root + name
}

func join(parts ...string) string {
	return strings.Join(lists.Map(parts, url.PathEscape), "/")
}

func webhookName(ref inventory.Ref) string {
	return join("webhooks", string(ref.Type), ref.Configuration, ref.Name)
}

func (l links) webhook(ref inventory.Ref) link {
	if ref.Type.IsPolicy() { // of which there is no page
		return link{Text: ref.Name}
	}
	return link{ref.Name, l.link(webhookName(ref))}
}

func (l links) check(c *classify.Check) link {
	if l.inFile {
		return link{c.Name, report.RunbookURL(c.Name)}
	}
	return link{c.Name, l.link(join("checks", c.Name))}
}

// search is the table of webhooks with the words.
func (l links) search(label, words string) link {
	if words == "" || l.inFile {
		return link{label, l.link("webhooks")}
	}
	return link{label, l.link("webhooks") + "?" + url.Values{"q": {words}}.Encode()}
}
