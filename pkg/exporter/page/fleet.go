package page

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Cluster is one of several clusters of a file.
type Cluster struct {
	// Document is what its context was read to hold.
	Document report.Document
	// Report is nil where the cluster could not be read.
	Report *classify.Report
}

// The bounds of a file of several clusters: at about 100 kB each, browsers open it
// at once.
const (
	maxFileClusters = 100
	maxShared       = 20
)

// fleetPage is the file of several clusters.
type fleetPage struct {
	Headings []string
	Clusters []clusterRow
	// Unread counts the clusters that could not be read.
	Unread int
	// Shared are findings of the same webhook in several clusters, of the worst
	// severity first.
	Shared       []sharedRow
	MoreShared   int
	Sections     []clusterSection
	MoreSections int
}

type clusterRow struct {
	Context link
	Cells   []string
}

// sharedRow counts the clusters in which a check finds the same of a webhook.
type sharedRow struct {
	Severity, Webhook, Registered string
	Check                         link
	Clusters                      int
}

// clusterSection is what the file shows of one cluster.
type clusterSection struct {
	ID, Name, Summary string
	Overview          *overview
}

// WriteFleet writes one file of several clusters that needs no other: which are
// bad, what they share, and the overview of each.
func WriteFleet(w io.Writer, clusters []Cluster, o Options) error {
	l := links{file: &contents{section: "overview"}}
	d := newDocument("Webhook report", "", l)
	d.Nav = []navItem{{link{"Clusters", l.to("")}, false}, {link{"Each cluster", l.to("clusters")}, false}}
	d.File, d.Version, d.Fleet = embedded(), o.Version, newFleetPage(clusters)
	return d.write(w)
}

func newFleetPage(clusters []Cluster) *fleetPage {
	var documents []report.Document
	sections := map[string]clusterSection{}
	for _, c := range clusters {
		documents = append(documents, c.Document)
		for _, totals := range c.Document.Contexts {
			sections[totals.Context] = c.section(totals)
		}
	}
	merged := report.Merge(documents)
	p := &fleetPage{Headings: report.ContextHeadings}
	for i, totals := range merged.Contexts {
		row := clusterRow{link{Text: totals.Context}, totals.Cells()}
		if i < maxFileClusters {
			section := sections[totals.Context]
			row.Context.URL = "#" + section.ID
			p.Sections = append(p.Sections, section)
		}
		if totals.Totals == nil {
			p.Unread++
		}
		p.Clusters = append(p.Clusters, row)
	}
	p.MoreSections = len(p.Clusters) - len(p.Sections)
	shared := sharedRows(merged.Findings)
	p.Shared = shared[:min(len(shared), maxShared)]
	p.MoreShared = len(shared) - len(p.Shared)
	return p
}

// section is what the file shows of the cluster; of one that could not be read, why.
func (c Cluster) section(totals report.ContextTotals) clusterSection {
	s := clusterSection{ID: join("clusters", totals.Context), Name: totals.Context}
	if c.Report == nil {
		s.Summary, s.Overview = "not read", &overview{Nothing: "What it holds is unknown."}
		for _, e := range c.Document.Errors {
			s.Overview.Errors = append(s.Overview.Errors, e.String())
		}
		return s
	}
	n := c.Document.Totals.Findings
	s.Summary = fmt.Sprintf("%d critical, %d warning, %d info", n.Critical, n.Warning, n.Info)
	s.Overview = newView(c.Report, links{file: &contents{section: s.ID}}, c.Document.Shown()).overview()
	return s
}

// sharedRows are the findings of more than one cluster, the worst first and those
// of the most clusters.
func sharedRows(findings []report.Finding) []sharedRow {
	type key struct {
		check   string
		webhook inventory.Ref
	}
	worst, contexts := map[key]classify.Severity{}, map[key]map[string]bool{}
	for _, f := range findings {
		if f.Acknowledged {
			continue
		}
		k := key{f.Check, f.Ref}
		if contexts[k] == nil {
			contexts[k] = map[string]bool{}
		}
		worst[k], contexts[k][f.Context] = max(worst[k], f.Severity), true
	}
	maps.DeleteFunc(contexts, func(_ key, of map[string]bool) bool { return len(of) < 2 })
	keys := slices.SortedFunc(maps.Keys(contexts), func(a, b key) int {
		return cmp.Or(cmp.Compare(worst[b], worst[a]), cmp.Compare(len(contexts[b]), len(contexts[a])),
			cmp.Compare(a.check, b.check), a.webhook.Compare(b.webhook))
	})
	var out []sharedRow
	for _, k := range keys {
		out = append(out, sharedRow{
			Severity: worst[k].String(), Webhook: k.webhook.Name, Registered: k.webhook.Configuration,
			Check: link{k.check, report.RunbookURL(k.check)}, Clusters: len(contexts[k]),
		})
	}
	return out
}
