package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// handler serves the pages.
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

// NewHandler serves the pages of the Report that current returns at each request,
// nil while there is none.
func NewHandler(current func() *classify.Report, now func() time.Time, o Options) http.Handler {
	h := &handler{Options: o, current: current, now: now, slots: make(chan struct{}, maxRendering)}
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", h.page("Overview", "Overview", func(v *view, d *document, _ *http.Request) bool {
		d.Overview = v.overview()
		return true
	}))
	mux.Handle("GET /webhooks", h.page("Webhooks", "Webhooks", func(v *view, d *document, r *http.Request) bool {
		d.Webhooks = v.table(readQuery(r.URL.Query()), pageSize)
		return true
	}))
	mux.Handle("GET /webhooks/{type}/{configuration}/{name}", h.page("", "Webhooks", showWebhook))
	mux.Handle("GET /webhooks/{type}/{configuration}", h.page("", "Webhooks", suggestOfConfiguration))
	mux.Handle("GET /changes", h.page("Changes", "Changes", h.changes))
	mux.Handle("GET /resources", h.page("Resources", "Resources", func(v *view, d *document, _ *http.Request) bool {
		d.Resources = v.resourceList()
		return true
	}))
	mux.Handle("GET /resources/{resource...}", h.page("", "Resources", showResource))
	mux.Handle("GET /bootstrap", h.page("Bootstrap", "Bootstrap", func(v *view, d *document, r *http.Request) bool {
		d.Bootstrap = v.bootstrap(r.Context())
		return true
	}))
	mux.Handle("GET /checks", h.page("Checks", "Checks", func(v *view, d *document, _ *http.Request) bool {
		d.Checks = v.checkList()
		return true
	}))
	mux.Handle("GET /checks/{name}", h.page("", "Checks", showCheck))
	mux.Handle("GET /ask", h.page("Ask", "Ask", h.ask))
	mux.Handle("POST /ask", http.NewCrossOriginProtection().Handler(h.page("Ask", "Ask", h.ask)))
	mux.Handle("GET /search", h.page("Search", "", func(v *view, d *document, r *http.Request) bool {
		d.Search = v.find(r.URL.Query().Get("q"))
		return true
	}))
	mux.Handle("GET /assets/page.css", asset("text/css; charset=utf-8", styleSheet))
	mux.Handle("GET /assets/icon.svg", asset("image/svg+xml", icon))
	mux.Handle("GET /assets/page.js", asset("text/javascript; charset=utf-8", script))
	mux.Handle("GET /", h.page("", "", func(v *view, d *document, r *http.Request) bool {
		d.Missing = &missingPage{What: "page", Name: r.URL.Path}
		return false
	}))
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

// asset serves a file of the program; browsers ask for it again only when it
// differs.
func asset(contentType, content string) http.Handler {
	etag := `"` + digest(content)[:16] + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", etag)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
	})
}

func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// page serves a page; show fills in the document, and returns false where there
// is no such page.
func (h *handler) page(title, section string, show func(*view, *document, *http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.acquire(r) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many pages are being rendered; try again", http.StatusServiceUnavailable)
			return
		}
		d := newDocument(title, section, links{root: rootOf(r)})
		status, body, err := h.renderInSlot(&d, r, show)
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
func (h *handler) renderInSlot(d *document, r *http.Request, show func(*view, *document, *http.Request) bool) (status int, body []byte, err error) {
	defer func() {
		<-h.slots
		if value := recover(); value != nil {
			if h.OnPanic != nil {
				h.OnPanic(value, debug.Stack())
			}
			err = errors.New("rendering the page: it panicked; the log has the stack")
		}
	}()
	return h.render(d, r, show)
}

// render returns a page that is complete: an error in the middle of it would look
// like its end.
func (h *handler) render(d *document, r *http.Request, show func(*view, *document, *http.Request) bool) (status int, body []byte, err error) {
	l := links{root: rootOf(r)}
	d.Assets, d.Version = l.root+"assets/", h.Version
	status = http.StatusServiceUnavailable
	report := h.current()
	d.Status = statusOf(report, h.now())
	if report != nil {
		status = http.StatusOK
		if !show(newView(report, l, showAll), d, r) {
			status = http.StatusNotFound
			h.suggest(d)
		}
	}
	var b bytes.Buffer
	err = d.write(&b)
	return status, b.Bytes(), err
}

// acquire waits until the page may be rendered; false says that it may not.
func (h *handler) acquire(r *http.Request) bool {
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case h.slots <- struct{}{}:
		return true
	case <-timer.C:
	case <-r.Context().Done():
	}
	return false
}

// rootOf leads from the page to "/".
func rootOf(r *http.Request) string {
	depth := strings.Count(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	if depth == 0 {
		return "./"
	}
	return strings.Repeat("../", depth)
}

// missingPage says that there is no such page.
type missingPage struct {
	What, Name string
	Similar    []link
	// known are the names to suggest from, with their pages.
	known map[string]link
	All   link
}

func (h *handler) suggest(d *document) {
	d.Title = "Not found"
	m := d.Missing
	if m == nil || h.Similar == nil {
		return
	}
	for _, name := range h.Similar(m.Name, slices.Sorted(maps.Keys(m.known))) {
		m.Similar = append(m.Similar, link{name, m.known[name].URL})
	}
}

func showWebhook(v *view, d *document, r *http.Request) bool {
	ref := inventory.Ref{Type: inventory.Type(r.PathValue("type")), Configuration: unescaped(r.PathValue("configuration")), Name: unescaped(r.PathValue("name"))}
	d.Title = ref.Name
	if p := v.byRef[ref]; p != nil {
		d.Cards = []*webhookPage{v.webhookPage(p)}
		return true
	}
	d.Missing = &missingPage{What: "webhook", Name: ref.Name, known: map[string]link{}, All: link{"all webhooks", v.to("webhooks")}}
	for _, p := range v.profiles {
		d.Missing.known[p.Name] = v.webhook(p.Ref)
	}
	return false
}

// suggestOfConfiguration answers an address that lacks the webhook: the webhooks of
// configurations of such a name are close.
func suggestOfConfiguration(v *view, d *document, r *http.Request) bool {
	d.Missing = &missingPage{What: "page of configuration", Name: unescaped(r.PathValue("configuration")), known: map[string]link{}, All: link{"all webhooks", v.to("webhooks")}}
	for _, p := range v.profiles {
		if string(p.Type) == r.PathValue("type") {
			d.Missing.known[p.Configuration] = v.webhook(p.Ref)
		}
	}
	return false
}

func showResource(v *view, d *document, r *http.Request) bool {
	var resource inventory.Resource
	err := resource.UnmarshalText([]byte(r.PathValue("resource")))
	d.Title = resource.String()
	if err == nil && v.Matcher.Serves(resource) {
		operation := admission.Operation(strings.ToUpper(r.URL.Query().Get("operation")))
		d.Chains = []*resourcePage{v.resourcePage(resource, operation, r.URL.Query().Get("namespace"))}
		return true
	}
	d.Missing = &missingPage{What: "resource", Name: resource.String(), known: map[string]link{}, All: link{"all resources that webhooks are called for", v.to("resources")}}
	for _, s := range v.Snapshot.Served {
		d.Missing.known[s.Resource.String()] = v.resource(s.Resource)
	}
	return false
}

func showCheck(v *view, d *document, r *http.Request) bool {
	d.Title = r.PathValue("name")
	if c := findCheck(r.PathValue("name")); c != nil {
		q := r.URL.Query()
		d.Runbooks = []*checkPage{v.checkPage(c)}
		v.fill(d.Runbooks[0], c, inventory.Ref{Type: inventory.Type(q.Get("type")), Configuration: q.Get("configuration"), Name: q.Get("name")})
		return true
	}
	d.Missing = &missingPage{What: "check", Name: r.PathValue("name"), known: map[string]link{}, All: link{"all checks", v.to("checks")}}
	for _, c := range classify.Checks {
		d.Missing.known[c.Name] = v.check(c)
	}
	return false
}
