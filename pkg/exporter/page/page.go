// Package page serves a classify.Report to a browser, and writes its first pages as one
// self-contained file. It evaluates nothing beyond what packages classify and impact
// derive from the Report.
//
// Every text of a cluster is untrusted: html/template escapes it, and the
// Content-Security-Policy allows nothing inline.
package page

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed page.css
var styleSheet string

//go:embed page.js
var script string

const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#0b57b5"/><path d="M3 5h6M3 8h10M3 11h7" stroke="#fff" stroke-width="1.6" stroke-linecap="round"/></svg>`

// templates are parsed once a page is asked for: other commands do not wait for that.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"breaks": breaks, "counted": inventory.Counted, "clock": clock, "complete": report.Complete,
	}).ParseFS(templateFiles, "templates/*.html"))
})

type Options struct {
	Version string
	// OnPanic, if set, is called with each panic of a page that is served, and its
	// stack.
	OnPanic func(value any, stack []byte)
	Explain explains
	// History has the changes of registrations that served pages show.
	History *impact.History
}

// answer is what a page says, by the template that writes it.
type answer struct {
	title, template string
	data            any
	// status of HTTP; 0 for a page that is there.
	status int
}

type document struct {
	Title   string
	Nav     []navItem
	Home    string
	File    *fileAssets
	Assets  string
	Status  status
	Version string
	Project string
	Body    template.HTML
}

// fileAssets are what a file contains that is served as resources otherwise.
type fileAssets struct {
	Policy string
	Style  template.CSS
	Script template.JS
}

type navItem struct {
	link
	Current bool
}

type status struct {
	Server string
	// AsOf is the time of the facts, When says of what: "as of", or how files got it. Age is
	// how long that is ago; "" of files.
	AsOf, When, Age string
	Seconds         int
	Stale, Waiting  bool
	// Broken says which watches are not current, "" if all are; Since is when the
	// first of them broke.
	Broken, Since string
}

// staleAfter is several times the minute after which an unchanged Snapshot is
// published again.
const staleAfter = 5 * time.Minute

func statusOf(r *classify.Report, now time.Time) status {
	if r == nil {
		return status{Waiting: true}
	}
	asOf := r.AsOf()
	s := status{Server: r.Snapshot.Server.String(), AsOf: timeText(asOf), When: "as of"}
	if inputs := r.Snapshot.Inputs; len(inputs) > 0 {
		s.When = "read at"
		if slices.ContainsFunc(inputs, func(i inventory.Input) bool { return !i.Taken.IsZero() }) {
			s.When = "recorded at"
		}
		return s
	}
	age := max(now.Sub(asOf), 0)
	s.Age, s.Seconds, s.Stale = duration.HumanDuration(age), int(age.Seconds()), age > staleAfter
	if outdated := r.Snapshot.Outdated; len(outdated) > 0 {
		resources := slices.SortedFunc(maps.Keys(outdated), inventory.Resource.Compare)
		s.Broken = "the watch of " + resources[0].String()
		if more := len(resources) - 1; more > 0 {
			s.Broken += fmt.Sprintf(" and %d more", more)
		}
		s.Since = timeText(slices.MinFunc(slices.Collect(maps.Values(outdated)), time.Time.Compare))
	}
	return s
}

// timeText is a time as pages show it; "" where there is none.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// clock is what people read of a time of timeText.
func clock(rfc3339 string) string {
	return strings.Replace(rfc3339[:len("2006-01-02T15:04")], "T", " ", 1) + " UTC"
}

func spanText(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return text.Seconds(d.Truncate(time.Second))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 2*24*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// breaks lets a name wrap after its dots, slashes and underscores, and before the
// words of a camel case name.
func breaks(name string) template.HTML {
	return template.HTML(humps.ReplaceAllString(wrapping.Replace(template.HTMLEscapeString(name)), "$1<wbr>$2"))
}

var humps = regexp.MustCompile(`([a-z])([A-Z])`)

var wrapping = strings.NewReplacer(".", ".<wbr>", "/", "/<wbr>", "_", "_<wbr>")

var sections = []struct{ title, path string }{
	{"Overview", ""},
	{"Webhooks", "webhooks"},
	{"Changes", "changes"},
	{"Bootstrap", "bootstrap"},
	{"Ask", "ask"},
}

// newDocument returns a document without an answer; the Report may be nil.
func newDocument(r *classify.Report, section string, l links) document {
	d := document{Home: l.link(""), Project: report.Project}
	for _, s := range sections {
		switch {
		case s.path == "bootstrap" && section != s.title && (r == nil || !cycles(r)):
		default:
			d.Nav = append(d.Nav, navItem{link{s.title, l.link(s.path)}, s.title == section})
		}
	}
	return d
}

func (d document) write(a answer) ([]byte, error) {
	var body, whole bytes.Buffer
	if a.template != "" {
		if err := templates().ExecuteTemplate(&body, a.template, a.data); err != nil {
			return nil, fmt.Errorf("writing page: %w", err)
		}
		d.Title, d.Body = a.title, template.HTML(body.String())
	}
	if err := templates().ExecuteTemplate(&whole, "document", d); err != nil {
		return nil, fmt.Errorf("writing page: %w", err)
	}
	return whole.Bytes(), nil
}

type filePage struct {
	Overview *overview
	Webhooks *table
}

func newFilePage(r *classify.Report, d report.Document) filePage {
	registered := lists.By(d.Registered(), func(w report.Webhook) inventory.Ref { return w.Ref })
	selected := *r
	selected.Findings = lists.Filter(r.Findings,
		func(f *classify.Finding) bool { return registered[f.Webhook].Ref == f.Webhook })
	v := newView(&selected, links{inFile: true})
	v.profiles = lists.Filter(v.profiles, func(p *classify.Profile) bool { return registered[p.Ref].Ref == p.Ref })
	return filePage{v.overview(), v.table(query{})}
}

// WriteFile writes the overview and the table of webhooks as one file that needs no other,
// of what the Document selects. The policy allows its style and script by their digests.
func WriteFile(w io.Writer, r *classify.Report, d report.Document, version string) error {
	file := document{File: newAssets(), Version: version, Project: report.Project, Status: statusOf(r, r.AsOf())}
	file.Status.Age = "" // it grows while the file lies around
	page, err := file.write(answer{title: "Webhook report", template: "file", data: newFilePage(r, d)})
	if err != nil {
		return err
	}
	if _, err := w.Write(page); err != nil {
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
