package page

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
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

// show answers a request.
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

// asset serves a file of the program.
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

// page serves a page of the section of the navigation.
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

// missingPage says that there is no such page, and where to look.
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
