package page

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"html/template"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/yuin/goldmark"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/start"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

type handler struct {
	Options
	current func() *classify.Report
	now     func() time.Time
	// slots bounds the pages that are rendered at the same time.
	slots chan struct{}
}

// maxRendering is how many pages are rendered at the same time: looking at pages
// must not keep the watch from evaluating.
const maxRendering = 2

// maxWait is how long a request waits for others to be rendered.
const maxWait = 5 * time.Second

type show func(*view, *http.Request) answer

// NewHandler serves the pages of the Report that current returns at each request,
// nil while there is none.
func NewHandler(current func() *classify.Report, now func() time.Time, o Options) http.Handler {
	h := &handler{Options: o, current: current, now: now, slots: make(chan struct{}, maxRendering)}
	mux := http.NewServeMux()
	for pattern, page := range map[string]struct {
		section string
		show    show
	}{
		"/{$}": {"Overview", func(v *view, _ *http.Request) answer {
			return answer{title: "Overview", template: "overview", data: v.overview()}
		}},
		"/webhooks": {"Webhooks", func(v *view, r *http.Request) answer {
			q := r.URL.Query()
			return answer{title: "Webhooks", template: "webhooks", data: v.table(query{q.Get("q"), inventory.Type(q.Get("type"))})}
		}},
		"/webhooks/{type}/{configuration}/{name}": {"Webhooks", showWebhook},
		"/changes": {"Changes", h.changes},
		"/bootstrap": {"Bootstrap", func(v *view, _ *http.Request) answer {
			return answer{title: "Bootstrap", template: "bootstrap", data: v.bootstrap()}
		}},
		"/checks/{name}": {"", showCheck},
		"/ask":           {"Ask", h.ask},
		"/": {"", func(v *view, r *http.Request) answer {
			return missing("page", r.URL.Path, link{"the overview", v.link("")})
		}},
	} {
		mux.Handle("GET "+pattern, h.page(page.section, page.show))
	}
	mux.Handle("POST /ask", http.NewCrossOriginProtection().Handler(h.page("Ask", h.ask)))
	mux.Handle("GET /assets/page.css", asset("text/css; charset=utf-8", styleSheet))
	mux.Handle("GET /assets/icon.svg", asset("image/svg+xml", icon))
	mux.Handle("GET /assets/page.js", asset("text/javascript; charset=utf-8", script))
	return secured(mux)
}

// The headers of all answers. Nothing is loaded from elsewhere, nothing inline
// runs, and no other page may embed these.
var headers = map[string]string{
	"Content-Security-Policy":      "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), geolocation=(), microphone=()",
}

func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		next.ServeHTTP(w, r)
	})
}

func asset(contentType, content string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
	})
}

func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func (h *handler) page(section string, show show) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.acquire(r) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many pages are being rendered; try again", http.StatusServiceUnavailable)
			return
		}
		status, body, err := h.renderInSlot(section, r, show)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(status)
		_, _ = w.Write(body) // an error here is a client that went away
	})
}

// renderInSlot renders in the slot that acquire took, and frees it: a client that
// reads slowly keeps no other waiting. A panic costs the page that caused it.
func (h *handler) renderInSlot(section string, r *http.Request, show show) (status int, body []byte, err error) {
	defer func() {
		<-h.slots
		if value := recover(); value != nil {
			if h.OnPanic != nil {
				h.OnPanic(value, debug.Stack())
			}
			err = errors.New("rendering the page: it panicked; the log has the stack")
		}
	}()
	return h.render(section, r, show)
}

// render returns a page that is complete: an error in the middle of it would look
// like its end.
func (h *handler) render(section string, r *http.Request, show show) (status int, body []byte, err error) {
	current, l := h.current(), links{root: rootOf(r)}
	d := newDocument(current, section, l)
	d.Assets, d.Version, d.Status = l.root+"assets/", h.Version, statusOf(current, h.now())
	status = http.StatusServiceUnavailable
	var a answer
	if current != nil {
		v := newView(current, l)
		v.history = h.History
		if d.Status.Age != "" {
			v.now = h.now()
		}
		a = show(v, r)
		status = cmp.Or(a.status, http.StatusOK)
	}
	body, err = d.write(a)
	return status, body, err
}

// acquire waits until the page may be rendered; false says that it may not.
func (h *handler) acquire(r *http.Request) bool {
	ctx, cancel := context.WithTimeout(r.Context(), maxWait)
	defer cancel()
	select {
	case h.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// rootOf leads from the page to "/".
func rootOf(r *http.Request) string {
	depth := strings.Count(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	if depth == 0 {
		return "./"
	}
	return strings.Repeat("../", depth)
}

type missingPage struct {
	What, Name string
	See        link
}

func missing(what, name string, see link) answer {
	return answer{title: "Not found", template: "missing", data: missingPage{what, name, see}, status: http.StatusNotFound}
}

// showWebhook leads on from a name that is gone: alerts may be older than a registration.
func showWebhook(v *view, r *http.Request) answer {
	ref := inventory.Ref{Type: inventory.Type(r.PathValue("type")), Configuration: r.PathValue("configuration"), Name: r.PathValue("name")}
	if p := v.byRef[ref]; p != nil {
		return answer{title: ref.Name, template: "webhook", data: v.webhookPage(p)}
	}
	return missing("webhook", ref.Name, v.search("webhooks of configuration "+ref.Configuration, ref.Configuration))
}

func showCheck(v *view, r *http.Request) answer {
	name := r.PathValue("name")
	c := classify.FindCheck(name)
	if c == nil {
		return missing("check", name, v.search("all webhooks", ""))
	}
	return answer{title: name, template: "check", data: v.checkPage(c)}
}

const maxNeeds = 300

// cycles says whether Pods of webhooks wait for each other: only then there is something
// to see.
func cycles(r *classify.Report) bool {
	return slices.ContainsFunc(r.Profiles, func(p *classify.Profile) bool { return p.Deadlock != nil })
}

// bootstrap shows which webhooks' Pods wait for which others, in the cycles of each.
func (v *view) bootstrap() report.Blocks {
	deadlocks := report.Block{Heading: "Deadlocks"}
	t := &report.Table{Headings: []string{"The Pods of", "need", "because"}}
	rows := map[string]bool{}
	for _, p := range v.profiles {
		d := p.Deadlock
		if d == nil {
			continue
		}
		line := report.Line{Name: p.Name, URL: v.webhook(p.Ref).URL, Under: report.Sentences(d.Steps...)}
		if !d.Certain {
			line.Text = "unless a label exempts it that is not known"
		}
		deadlocks.Lines = append(deadlocks.Lines, line)
		for _, w := range d.Waits {
			if row := waitCells(w); !rows[strings.Join(row, "\n")] {
				rows[strings.Join(row, "\n")] = true
				t.Rows = append(t.Rows, row)
			}
		}
	}
	return report.Blocks{deadlocks, {Heading: "Dependencies", Table: t}}.NonEmpty().Bounded(maxNeeds)
}

func waitCells(w start.Wait) []string {
	why := "every Pod needs it " + w.Use
	if w.Webhook != nil {
		why = w.Webhook.Name + " refuses " + w.What + " it"
	}
	if w.Unless != "" {
		why += ", unless a label exempts it that is not known"
	}
	return []string{w.From, w.On, why}
}

// maxChanges bounds the page, of which each change is some kilobytes at most; the log and
// Events have all.
const maxChanges = 15

// changesPage is the page of what changed of the registrations, the newest first.
type changesPage struct {
	Since   string
	Changes report.Blocks
	Total   int
}

func (h *handler) changes(v *view, _ *http.Request) answer {
	p := &changesPage{}
	if h.History != nil {
		changes := h.History.After(0)
		p.Since, p.Total = timeText(h.History.Since()), len(changes)
		for _, c := range slices.Backward(changes[max(len(changes)-maxChanges, 0):]) {
			p.Changes = append(p.Changes, v.change(c))
		}
	}
	return answer{title: "Changes", template: "changes", data: p}
}

// change leads to the webhooks of the configuration; policies have no page.
func (v *view) change(c impact.PastChange) report.Block {
	b := report.Block{Heading: v.ago(c.At) + ": " + c.Subject()}
	named := report.Line{Name: c.Configuration, Under: report.Sentences(c.Differences...)}
	if !c.Type.IsPolicy() {
		named.URL = v.search("", c.Configuration).URL
	}
	b.Lines = append(b.Lines, named)
	for _, f := range c.Added {
		b.Add("came with it", report.Line{Tone: report.ToneOf(f.Severity), Text: f.Text})
	}
	for _, f := range c.Resolved {
		b.Add("went with it", report.Line{Tone: report.Good, Text: f.Text})
	}
	return b
}

type checkPage struct {
	Summary, Severity string
	Runbook           template.HTML
	Findings          []findingRow
	More              int
	All               link
}

func (v *view) checkPage(c *classify.Check) *checkPage {
	p := &checkPage{
		Summary: c.Summary, Severity: c.Severity.String(), Runbook: rendered()[c.Name], All: v.search("all of them", c.Name),
	}
	found := lists.Filter(v.Findings, func(f *classify.Finding) bool { return f.Check == c })
	p.Findings, p.More = v.rows(found, maxFindings)
	return p
}

// rendered are the runbooks, which are part of the program, once they are first looked at.
// It has no tables: goldmark's extensions cost each start of the program 0.3 ms.
var rendered = sync.OnceValue(func() map[string]template.HTML {
	markdown := goldmark.New()
	out := map[string]template.HTML{}
	for _, c := range classify.Checks {
		var b bytes.Buffer
		if err := markdown.Convert([]byte(c.Runbook()), &b); err != nil {
			panic(err) // unreachable: writing to memory does not fail
		}
		out[c.Name] = template.HTML(b.String())
	}
	return out
})
