package page

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/diagnose"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

// demo is the cluster of make demo, as far as its manifests go.
func demo(t testing.TB) *classify.Report {
	t.Helper()
	return clusterOf(t, "../../../e2e/demo")
}

// clusterOf is a cluster that has just what the files hold.
func clusterOf(t testing.TB, files string) *classify.Report {
	t.Helper()
	objects, _ := manifest.Read([]string{files}, manifest.Options{})
	objects.NamespacesKnown, objects.ServicesKnown.All, objects.EndpointsKnown.All = true, true, true
	return reporttest.Evaluated(t, objects.Snapshot(reporttest.Taken))
}

var options = Options{
	Version: "v1.2.3",
	Explain: func(m *admission.Matcher, q Request) (admission.Chain, error) {
		if len(q.Words) < 4 {
			return admission.Chain{}, errors.New("no such request")
		}
		r, err := m.OpenRequest(admission.Create, inventory.Resource{Name: q.Words[1]}, admission.Subject{Namespace: q.Words[3]})
		if err != nil {
			return admission.Chain{}, err
		}
		return m.Chain(r), nil
	},
}

func serve(r *classify.Report) http.Handler {
	return NewHandler(func() *classify.Report { return r }, func() time.Time { return reporttest.Taken.Add(12 * time.Second) }, options)
}

func get(t testing.TB, h http.Handler, target string) (int, string, http.Header) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w.Code, w.Body.String(), w.Header()
}

// serves compares pages with the texts that each must have.
func serves(t *testing.T, h http.Handler, status int, pages map[string][]string) {
	t.Helper()
	for target, wants := range pages {
		t.Run(target, func(t *testing.T) {
			got, body, _ := get(t, h, target)
			expect.Equal(t, status, got)
			expect.Contains(t, body, wants...)
		})
	}
}

func file(t testing.TB, r *classify.Report) string {
	t.Helper()
	var b bytes.Buffer
	must.Succeed(t, WriteFile(&b, r, report.NewDocument(r), options.Version))
	return b.String()
}

// TestPanicClosesNoPages: pages that panic are reported and answered, and the others
// are served all the same.
func TestPanicClosesNoPages(t *testing.T) {
	current, reported := demo(t), 0
	options := Options{OnPanic: func(value any, stack []byte) {
		if reported++; value != "broken" || !bytes.Contains(stack, []byte("TestPanicClosesNoPages")) {
			t.Errorf("panic %v is reported with the stack\n%s", value, stack)
		}
	}}
	panics := 2 * maxRendering
	h := NewHandler(func() *classify.Report {
		if reported < panics {
			panic("broken")
		}
		return current
	}, time.Now, options)
	for range panics {
		if code, body, _ := get(t, h, "/"); code != http.StatusInternalServerError {
			t.Fatalf("a page that panics: %d %s", code, body)
		}
	}
	if code, body, _ := get(t, h, "/"); code != http.StatusOK || reported != panics {
		t.Errorf("after %d panics, of which %d are reported: %d %s", panics, reported, code, body)
	}
}

func TestPages(t *testing.T) {
	h := serve(demo(t))
	serves(t, h, http.StatusOK, map[string][]string{
		"/": {
			">documentation on GitHub</a>", "<title>Overview · webhook-auditor</title>", "12s</time> ago", `href="./checks/service-missing"`, "kubectl delete",
			"19 webhooks. Findings: ", "v1.2.3", `<a href="./" aria-current="page">Overview</a>`, "First command: kubectl",
		},
		"/webhooks":                    {`<form class="filter"`, "configmaps.legacy.example.com", "service-missing", `action="./webhooks"`},
		"/webhooks?q=LEGACY":           {"configmaps.legacy.example.com", "1 of 19 webhooks"},
		"/webhooks?q=service-missing":  {"configmaps.legacy.example.com"},
		"/webhooks?q=storage/backup":   {"backups.storage.example.com"},
		"/webhooks?type=conversion&q=": {"backups.storage.example.com", " of 19 webhooks"},
		"/webhooks?q=no-such-webhook":  {"None of 19 webhooks matches"},
		"/webhooks/validating/legacy-operator/configmaps.legacy.example.com": {
			"<h1>configmaps.legacy.example.com</h1>", "service-missing",
			// What a fix says to run is copied by itself.
			`<p>bring Service legacy/legacy-operator:443 back</p>`, `<code class="block" tabindex="0">kubectl get deploy,svc,endpointslices,pods -n legacy</code><button`,
			`<code class="block" tabindex="0">kubectl get validatingwebhookconfiguration legacy-operator -o yaml &gt; raw.yaml`, `&amp;&amp; kubectl delete validatingwebhookconfiguration legacy-operator</code><button`,
			"only in namespaces that match kubernetes.io/metadata.name=legacy", `href="../../../checks/service-missing"`,
		},
		"/ask?text=" + escaped("kind: Secret"): {`role="alert"`, "paste it into the box"},
		"/bootstrap":                           {"<h3>Dependencies</h3>", "Deadlocks"},
		"/checks/service-missing":              {"<h2>Meaning</h2>", "configmaps.legacy.example.com"},
		"/assets/page.css":                     {":root"},
		"/assets/page.js":                      {"'use strict'"},
		"/assets/icon.svg":                     {"<svg"},
	})
}

func TestMissing(t *testing.T) {
	h := serve(demo(t))
	serves(t, h, http.StatusNotFound, map[string][]string{
		"/webhooks/validating/policy/none": {"There is no webhook <code>none</code>", `href="../../../webhooks?q=policy"`},
		"/checks/none":                     {"There is no check <code>none</code>", `href="../webhooks"`},
		"/nothing/at/all":                  {"There is no page <code>/nothing/at/all</code>", `href="../../assets/page.css"`},
	})
	if status, body, _ := get(t, serve(nil), "/"); status != http.StatusServiceUnavailable || !strings.Contains(body, "Waiting for the first snapshot") {
		t.Errorf("without a Report: %d\n%s", status, body)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/webhooks", nil))
	expect.Equal(t, http.StatusMethodNotAllowed, w.Code)
}

func post(h http.Handler, text, site string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/ask", strings.NewReader(url.Values{"text": {text}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", site)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestAsk: one box knows an error from an object, a request and a name; what is put into
// it stands in no address, and comes from no page elsewhere. Answers have links, and
// commands to copy.
func TestAsk(t *testing.T) {
	h := serve(demo(t))
	_, form, _ := get(t, h, "/ask")
	if n := strings.Count(form, `action="./ask" method="post"`); n != 5 || strings.Count(form, "<textarea") != 1 {
		t.Errorf("%d forms are sent by POST, want the search, the box and three examples:\n%s", n, form)
	}
	failed := `Internal error occurred: failed calling webhook "configmaps.legacy.example.com": failed to call webhook: Post "https://legacy-operator.legacy.svc:443/?timeout=10s": service "legacy-operator" not found`
	expect.Contains(t, strings.ReplaceAll(form, "&#34;", `"`), `failed calling webhook "`, "create pods -n default", "kind: Pod")
	for text, wants := range map[string][]string{
		failed:                           {"<h2>Webhook configmaps.legacy.example.com: service-missing</h2>", `href="./webhooks/validating/legacy-operator/configmaps.legacy.example.com"`, `href="./checks/service-missing"`, `kubectl get deploy,svc,endpointslices,pods -n legacy</code><button`},
		"create pods -n shop":            {"<h2>CREATE pods in shop is answered with 404, as namespace shop does not exist. If it did, the request meets", `<svg class="chain"`, `href="./webhooks/validating/guard/pods.guard.example.com"`},
		"kubectl create configmaps -n a": {"CREATE configmaps in a"},
		"create configmaps -n legacy":    {"refused now, as configmaps.legacy.example.com cannot be called", `First, look</span><div class="command"><code class="block" tabindex="0">kubectl get deploy,svc,endpointslices,pods -n legacy</code>`},
		"create the pods in namespace b": {"CREATE pods in b"},
		`{"kind": "ConfigMap"}`:          {"no such request"}, // by the stand-in for explain
		"legacy":                         {"Names with legacy", `configmaps.legacy.example.com">`},
		"nothing at all":                 {`role="alert"`, "no webhook error recognized; nor is it an object"},
		strings.Repeat("x", maxAsked):    {"use webhook-auditor explain -f FILE"},
	} {
		if w := post(h, text, "same-origin"); w.Code != http.StatusOK {
			t.Errorf("%.40s: %d", text, w.Code)
		} else {
			expect.Contains(t, w.Body.String(), wants...)
		}
	}
	example := html.UnescapeString(regexp.MustCompile(`value="(Internal error[^"]*)"`).FindStringSubmatch(form)[1])
	if answer := post(h, example, "same-origin").Body.String(); !regexp.MustCompile(`<h2>Webhook ([^:]+): [a-z-]+</h2>`).MatchString(answer) || strings.Contains(answer, "timeout</h2>") {
		t.Errorf("the example %s is answered:\n%s", example, answer)
	}
	for _, site := range []string{"cross-site", "same-site"} {
		if w := post(h, "create pods", site); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d", site, w.Code)
		}
	}
}

// TestNamesInAnswersLead: a name leads to its page, of several that have a line in common the first.
func TestNamesInAnswersLead(t *testing.T) {
	const webhook = "./webhooks/validating/legacy-operator/configmaps.legacy.example.com"
	for name, want := range map[string]string{
		"configmaps.legacy.example.com":              webhook,
		"configmaps.legacy.example.com:":             webhook,
		"configmaps.legacy.example.com and 1 other":  webhook,
		"configmaps.legacy.example.com and 2 others": webhook,
		"critical service-missing:":                  "./checks/service-missing",
		"gone.example.com and 1 other":               "",
	} {
		blocks := newView(demo(t), links{root: "./"}).linked(report.Blocks{{Lines: []report.Line{{Name: name}}}})
		if got := blocks[0].Lines[0].URL; got != want {
			t.Errorf("%s leads to %q, want %q", name, got, want)
		}
	}
}

// TestOneOrder: audit, the overview and the table have what is broken in one order, by the
// first webhook of each cause.
func TestOneOrder(t *testing.T) {
	r, name := demo(t), regexp.MustCompile(`[a-z-]+\.[a-z-]+\.example\.com`)
	v := newView(r, links{})
	var causes, audited, table []string
	for _, c := range v.causes() {
		if name := c.findings[0].Webhook.Name; c.broken() && !slices.Contains(causes, name) {
			causes = append(causes, name)
		}
	}
	add := func(names *[]string, name string) {
		if slices.Contains(causes, name) && !slices.Contains(*names, name) {
			*names = append(*names, name)
		}
	}
	for _, b := range report.NewDocument(r).Text(report.TextOptions{}) {
		for _, l := range b.Lines {
			if b.Heading == "BROKEN NOW" {
				add(&audited, name.FindString(fmt.Sprint(l)))
			}
		}
	}
	for _, row := range v.table(query{}).Rows {
		add(&table, row.Webhook.Text)
	}
	both := slices.DeleteFunc(slices.Clone(causes), func(name string) bool { return !slices.Contains(audited, name) }) // audit groups by sentence
	if len(both) < 4 {
		t.Errorf("only %v are in both", both)
	}
	expect.Equal(t, audited, both)
	expect.Equal(t, causes, table)
}

// TestIncident: the headline says what fails, as observed too, and since when; the page
// of the webhook who is affected, and what failed before.
func TestIncident(t *testing.T) {
	r := demo(t)
	backups := inventory.Series{Type: inventory.Conversion, Name: "backups.storage.example.com"}
	legacy := inventory.Ref{Type: inventory.Validating, Configuration: "legacy-operator", Name: "configmaps.legacy.example.com"}
	r.Snapshot.Observed = &inventory.Observation{Source: "prometheus", Servers: []inventory.ObservedServer{{Address: "http://prometheus", From: reporttest.Taken.Add(-time.Hour), To: reporttest.Taken}}, Webhooks: map[inventory.Series]inventory.Behavior{
		legacy.Series(): {Calls: 100, CallsPerSecond: 1, Failures: map[string]float64{"calling_webhook_error": 40}, P50: inventory.Quantile{Seconds: 0.02, Known: true}, P99: inventory.Quantile{Seconds: 0.5, Known: true}},
	}, Alerts: []inventory.Alert{{Name: "WebhookBackendDown", Severity: "critical", Series: backups, Since: reporttest.Taken.Add(-time.Minute)}}}
	serves(t, serve(r), http.StatusOK, map[string][]string{
		"/": {
			" webhooks down; this one stops most</b>", "Calls fail, as observed: configmaps.legacy.example.com (40 %)",
			// The cause that stops most comes first, whatever the order of the findings.
			`<details class="top-cause" open><summary><b>Service storage/backup-operator:443 does not exist</b>`, "This stops: garbage collection",
			`First, look</span><div class="command"><code class="block" tabindex="0">kubectl get deploy,svc,endpointslices,pods -n storage</code>`,
			"Failing for at least <time", "Broken now: Service storage/backup-operator:443 does not exist\nStops: garbage collection",
			"Broken now: Service legacy/legacy-operator:443 does not exist\nStops: writes of configmaps in namespace legacy\n",
			"At risk: ",
			"<h3>Firing alerts</h3>", "Firing: Webhook<wbr>Backend<wbr>Down (critical)",
		},
		"/webhooks":               {`<td class="n" data-title="Failing"><span class="state state-bad">40.0%</span></td>`},
		"/" + webhookName(legacy): {"<h3>Who is affected</h3>"},
	})
}

// TestUnknown: what the input does not contain is neither 0 nor good.
func TestUnknown(t *testing.T) {
	w := validating("custom.example.com", "policy", "*") // a rule by name would be evidence enough
	w.Rules[0].APIGroups = []string{"gadgets.example.com"}
	files := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{kubetest.Validating("custom", w)}}
	cluster := files
	cluster.NamespacesKnown = true
	unread := inventory.Objects{Errors: []inventory.Error{{Object: "validatingwebhookconfigurations.admissionregistration.k8s.io", Message: "forbidden"}}}
	for _, c := range []struct {
		objects      inventory.Objects
		target, want string
	}{
		{files, "/webhooks", `data-title="Reach">not known</td>`},
		{files, "/webhooks/validating/custom/custom.example.com", "Not known: the input does not have the CustomResourceDefinitions"},
		{cluster, "/webhooks", `data-title="Reach">nothing</td>`},
		{cluster, "/webhooks/validating/custom/custom.example.com", "It is called for nothing that the API server serves."},
		{inventory.Objects{}, "/", "There is no webhook to say anything about."},
		{inventory.Objects{}, "/webhooks", "There is no webhook</p>"},
		{unread, "/", "Nothing is found to be wrong in what can be read."},
		{unread, "/webhooks", "No webhook can be read</p>"},
	} {
		_, body, _ := get(t, serve(reporttest.Evaluated(t, c.objects.Snapshot(reporttest.Taken))), c.target)
		if !strings.Contains(body, c.want) {
			t.Errorf("%s: no %q in:\n%s", c.target, c.want, body)
		}
		if len(c.objects.Validating) == 0 && strings.Contains(body, `class="note ok"`) {
			t.Errorf("%s: good news of nothing:\n%s", c.target, body)
		}
	}
}

// inline is what the policy of served pages forbids.
var inline = regexp.MustCompile(`(?i)<script>|<style|\sstyle=|\son[a-z]+=|javascript:|https?://[^"]*"[^>]*(src|rel="stylesheet)`)

func TestHeaders(t *testing.T) {
	h := serve(demo(t))
	for _, target := range []string{"/", "/webhooks", "/ask", "/bootstrap", "/checks/service-missing", "/none"} {
		_, body, header := get(t, h, target)
		for name, want := range headers {
			if header.Get(name) != want {
				t.Errorf("%s: %s: %q, want %q", target, name, header.Get(name), want)
			}
		}
		if found := inline.FindString(body); found != "" {
			t.Errorf("%s: %q is what the policy forbids", target, found)
		}
	}
	if policy := headers["Content-Security-Policy"]; strings.Contains(policy, "unsafe") || !strings.HasPrefix(policy, "default-src 'none'") {
		t.Errorf("the policy is %q", policy)
	}
}

func TestStale(t *testing.T) {
	r := demo(t)
	r.Snapshot.Current = reporttest.Taken.Add(-time.Hour)
	if _, body, _ := get(t, serve(r), "/"); !strings.Contains(body, "out of date") || !strings.Contains(body, "60m ago") {
		t.Errorf("a snapshot of an hour ago is not marked:\n%s", body)
	}
}

// TestBusy: a request is refused, rather than rendered, while others are.
func TestBusy(t *testing.T) {
	h := &handler{slots: make(chan struct{}, 1), current: func() *classify.Report { return nil }, now: time.Now}
	h.slots <- struct{}{}
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	h.page("", func(*view, *http.Request) answer { return answer{} }).ServeHTTP(w, request.WithContext(ctx))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d", w.Code)
	}
}

// TestLongChain: the drawing of a chain ends where the API server ends the request.
func TestLongChain(t *testing.T) {
	o := inventory.Objects{}
	for i := range 60 {
		w := validating(fmt.Sprintf("hook-%02d.example.com", i), "policy", "pods")
		mutates := kubetest.Reinvoked(w)
		mutates.TimeoutSeconds, mutates.ReinvocationPolicy = new(int32(30)), nil
		o.Mutating = append(o.Mutating, kubetest.Mutating(w.Name, mutates))
	}
	body := post(serve(reporttest.Evaluated(t, o.Snapshot(reporttest.Taken))), "create pods -n default", "same-origin").Body.String()
	expect.Contains(t, body, "The timeouts add up to 1800 s, but the API server ends the request after 34 s", ">34 s</text>", ">hook-00.example.com, 30 s</text>")
	bars := regexp.MustCompile(`<rect class="bar[^"]*" x="([0-9.]+)%" y="\d+" width="([0-9.]+)%"`).FindAllStringSubmatch(body, -1)
	expect.Equal(t, 60, len(bars))
	for _, m := range bars {
		x, _ := strconv.ParseFloat(m[1], 64)
		width, _ := strconv.ParseFloat(m[2], 64)
		if x+width > plotted+0.21 {
			t.Errorf("a bar ends at %g %%, outside of the drawing", x+width)
		}
	}
}

// TestFile: a file has what is broken, the table, and nothing that it would have to load.
func TestFile(t *testing.T) {
	body := file(t, demo(t))
	expect.Contains(
		t, body, `content="default-src &#39;none&#39;`, "<style>", "<script>", "<h1>Webhook report</h1>", "<h2>Webhooks</h2>", "configmaps.legacy.example.com",
		` &amp;&amp; kubectl delete validatingwebhookconfiguration legacy-operator</code>`, report.RunbookURL("service-missing"), "v1.2.3",
	)
	for _, m := range regexp.MustCompile(`(?:href|src)="([^"#][^"]*)"`).FindAllStringSubmatch(body, -1) {
		if m[1] != "data:," && !strings.HasPrefix(m[1], "https://github.com/webhook-auditor/") {
			t.Errorf("a link leads out of the file: %s", m[1])
		}
	}
}

// hostile is a cluster whose every name is an attack.
func hostile(t testing.TB) *classify.Report {
	t.Helper()
	return reporttest.Evaluated(t, hostileObjects().Snapshot(reporttest.Taken))
}

// TestHostileNames: a name ends up as text, wherever it stands.
func TestHostileNames(t *testing.T) {
	r := hostile(t)
	r.Errors = append(r.Errors, inventory.Error{Object: attack, Message: attack})
	h := serve(r)
	targets := []string{"/", "/webhooks", "/webhooks?q=" + escaped(attack), "/changes", "/bootstrap", "/none" + escaped(attack), "/checks/" + escaped(attack)}
	for i := range r.Profiles {
		targets = append(targets, "/"+webhookName(r.Profiles[i].Ref))
	}
	pages := map[string]string{"file": file(t, r)}
	for _, target := range targets {
		status, body, _ := get(t, h, target)
		if status == http.StatusInternalServerError || status == http.StatusBadRequest {
			t.Errorf("%s: %d", target, status)
		}
		pages[target] = body
	}
	seen := 0
	for target, body := range pages {
		if strings.Contains(body, "<img") || strings.Contains(body, "<script>alert") || regexp.MustCompile(`(?i)<[^>]*\sonerror=`).MatchString(unquoted(body)) {
			t.Errorf("%s: an attack is in the page", target)
		}
		if regexp.MustCompile(`(?i)href="\s*javascript:`).MatchString(body) {
			t.Errorf("%s: a link runs a script", target)
		}
		seen += strings.Count(body, "&lt;script&gt;")
	}
	if seen < 20 {
		t.Errorf("the attack is in the pages %d times: the names are not shown", seen)
	}
}

func unquoted(body string) string { return regexp.MustCompile(`="[^"]*"`).ReplaceAllString(body, "") }

// TestLinksLead: each link of each page leads to a page.
func TestLinksLead(t *testing.T) {
	for name, r := range map[string]*classify.Report{"demo": demo(t), "hostile": hostile(t)} {
		h := serve(r)
		seen := map[string]bool{"/": true}
		for queue := []string{"/"}; len(queue) > 0; queue = queue[1:] {
			base := httptest.NewRequest(http.MethodGet, queue[0], nil).URL
			status, body, _ := get(t, h, queue[0])
			if status != http.StatusOK {
				t.Errorf("%s: %s: %d", name, queue[0], status)
				continue
			}
			for _, m := range regexp.MustCompile(`<a [^>]*href="([^"#]*)"`).FindAllStringSubmatch(body, -1) {
				to, err := base.Parse(strings.ReplaceAll(m[1], "&amp;", "&"))
				if err != nil {
					t.Fatalf("%s: %v", m[1], err)
				}
				if target := to.RequestURI(); to.Host == base.Host && target != "/metrics" && !seen[target] && len(seen) < 600 {
					seen[target] = true
					queue = append(queue, target)
				}
			}
		}
		if len(seen) < 20 {
			t.Errorf("%s: only %d pages", name, len(seen))
		}
	}
}

// maxBytes is what a page may have.
const maxBytes = 200_000

// maxFileBytes bounds a file, which has more causes than a page that is served.
const maxFileBytes = 1_500_000

// TestSizes: no page of a large cluster exceeds its bound, whatever the names and
// the shape.
func TestSizes(t *testing.T) {
	for _, c := range largest {
		r := c.report(t)
		h := serve(r)
		for _, target := range largePages(r) {
			status, body, _ := get(t, h, target)
			if status != http.StatusOK && !strings.HasSuffix(target, "/none") || len(body) > maxBytes {
				t.Errorf("%s: %s: %d, %d bytes, want %d at most", c.name, target, status, len(body), maxBytes)
			}
		}
		if body := file(t, r); len(body) > maxFileBytes || !strings.Contains(body, "Left out: 4900 webhooks") {
			t.Errorf("%s: the file has %d bytes, want %d at most and how many webhooks are left out", c.name, len(body), maxFileBytes)
		}
	}
}

// largePages is one page of each kind, the largest ones; the last is missing.
func largePages(r *classify.Report) []string {
	return []string{
		"/", "/webhooks", "/webhooks?q=hook", "/" + webhookName(r.Profiles[0].Ref), "/bootstrap",
		"/checks/critical-resource", "/checks/service-missing", "/ask", "/webhooks/validating/" + escaped(r.Profiles[0].Configuration) + "/none",
	}
}

// serveChanges serves the last of Reports that follow one another.
func serveChanges(t *testing.T, reports ...*classify.Report) http.Handler {
	t.Helper()
	o := options
	o.History = &impact.History{}
	var before *classify.Report
	for _, r := range reports {
		o.History.Observe(before, r)
		before = r
	}
	return NewHandler(func() *classify.Report { return before }, func() time.Time { return reporttest.Taken }, o)
}

// waiting is a cluster with a configuration of that name, whose webhook waits for so many seconds.
func waiting(t *testing.T, name string, seconds int32) *classify.Report {
	t.Helper()
	w := validating("pods."+name, "policy", "pods")
	w.TimeoutSeconds = new(seconds)
	meta := metav1.ObjectMeta{Name: name, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "helm", Time: new(metav1.NewTime(reporttest.Taken.Add(-time.Minute)))}}}
	o := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{{ObjectMeta: meta, Webhooks: []admissionv1.ValidatingWebhook{w}}}}
	return reporttest.Evaluated(t, o.Snapshot(reporttest.Taken))
}

func TestChanges(t *testing.T) {
	none := reporttest.Evaluated(t, inventory.Objects{}.Snapshot(reporttest.Taken))
	at := reporttest.Taken.UTC().Format(time.RFC3339)
	taken := `<time datetime="` + at + `"`
	var many []*classify.Report
	for i := range int32(300) {
		many = append(many, waiting(t, "policy", 5+i%2))
	}
	for _, test := range []struct {
		name        string
		reports     []*classify.Report
		texts, nots []string
	}{
		{"nothing changed", []*classify.Report{none}, []string{"No registration changed since " + taken, `<a href="./changes" aria-current="page">Changes</a>`}, nil},
		{"changed", []*classify.Report{waiting(t, "policy", 5), waiting(t, "policy", 25)}, []string{
			`role="status">The newest 1 of 1`, "<h3>" + reporttest.Taken.UTC().Format("15:04 UTC") + ", 0 s ago: validating webhook configuration policy is changed, last written by helm", `href="./webhooks?q=policy"`,
			"<li>webhook pods.policy: timeoutSeconds 5 → 25</li>",
			"came with it</span>", "long-timeout: webhook pods.policy",
		}, []string{"went with it"}},
		{"deleted", []*classify.Report{waiting(t, "policy", 25), none}, []string{"is deleted", "went with it</span>"}, []string{`href="./webhooks/validating`}},
		{"the newest first", many, []string{"The newest 15 of 200"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := serveChanges(t, test.reports...)
			serves(t, h, http.StatusOK, map[string][]string{"/changes": test.texts})
			_, body, _ := get(t, h, "/changes")
			for _, not := range test.nots {
				if strings.Contains(body, not) {
					t.Errorf("%q in:\n%s", not, body)
				}
			}
		})
	}
}

// TestChangesOfHostileNames: what changes is shown as text, and of bounded size.
func TestChangesOfHostileNames(t *testing.T) {
	none := reporttest.Evaluated(t, inventory.Objects{}.Snapshot(reporttest.Taken))
	for name, r := range map[string]*classify.Report{"hostile": hostile(t), "longest names": longest(t)} {
		_, body, _ := get(t, serveChanges(t, none, r, none), "/changes")
		if strings.Contains(body, "<img") || strings.Contains(body, "<script>alert") || len(body) > maxBytes {
			t.Errorf("%s: an attack is in the page, or it is long: %d bytes", name, len(body))
		}
		if !strings.Contains(body, "is deleted") {
			t.Errorf("%s: nothing is shown", name)
		}
	}
}

// converted makes an error about an admission webhook one about a conversion.
var converted = regexp.MustCompile(`failed calling webhook \\*"[^"\\]*\\*"`)

// advice is all that is printed of the fixtures, of each cause of an error, in runbooks and
// in alerts, by where it is.
func advice(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{"alerts": string(must.Get(os.ReadFile("../../../rules/testdata/annotations.md"))(t))}
	for _, c := range classify.Checks {
		out["runbook "+c.Name] = c.Runbook()
	}
	write := func(where string, blocks report.Blocks) {
		var b strings.Builder
		must.Succeed(t, blocks.WriteText(&b, report.TextOptions{}))
		out[where] += b.String()
	}
	failures := string(must.Get(os.ReadFile("../../classify/diagnose/testdata/errors.tsv"))(t))
	reports := map[string]*classify.Report{"nothing": clusterOf(t, "../../../e2e/demo")}
	for _, pattern := range []string{"*.yaml", "outages/*.yaml"} {
		for _, name := range must.Get(filepath.Glob("../../classify/testdata/" + pattern))(t) {
			reports[name] = clusterOf(t, name)
		}
	}
	for name, r := range reports {
		h := serve(r)
		_, overview, _ := get(t, h, "/")
		out["page of "+name] = overview + file(t, r)
		var cards []impact.Card
		for _, p := range r.Profiles {
			_, page, _ := get(t, h, "/"+webhookName(p.Ref))
			out["page of "+name+" "+p.Name] = page
			cards = append(cards, impact.NewCard(r, p))
		}
		for _, p := range r.Snapshot.Policies {
			cards = append(cards, impact.PolicyCards(r, p.Ref)...)
		}
		write("impact of "+name, append(report.NewImpact(cards, &inventory.Snapshot{}).Text(report.TextOptions{}), report.NewImpact(cards, &inventory.Snapshot{}).Markdown()...))
		write("audit of "+name, report.NewDocument(r).Text(report.TextOptions{Fixes: true, Verbose: true}))
	}
	for line := range strings.Lines(failures + converted.ReplaceAllString(failures, "conversion webhook for shop.example.com/v1, Kind=Cart failed")) {
		var answers []diagnose.Answer
		for _, e := range diagnose.Parse(line[strings.LastIndexByte(line, '\t')+1:]) {
			answers = append(answers, diagnose.Explain(reports["nothing"], e))
		}
		write("error "+line, report.NewDiagnosis(answers, reports["nothing"].Snapshot).Text(report.TextOptions{}))
	}
	return out
}

var (
	changing = regexp.MustCompile(`kubectl (?:delete|patch) [^\s-]\S*`)
	// kept ends the command before one that changes an object: it has written a copy.
	kept       = regexp.MustCompile(`> "?[\w.$-]+\.yaml"?(?: && |\n)`)
	destroying = regexp.MustCompile(`(?i)kubectl delete (?:crd|customresourcedefinition|namespace)|delete the (?:CRD|CustomResourceDefinition)`)
	commands   = regexp.MustCompile(`<code class="block" tabindex="0">([^<]*)</code>(<button)?`)
	disabling  = regexp.MustCompile(`<h3>Disable it</h3>\s*<div class="command"><code class="block" tabindex="0">[^<]* &amp;&amp; kubectl (?:delete|patch) `)
)

// TestAdvice: no advice deletes objects of users; what changes one stands behind a copy of
// it; and what a button copies can be run.
func TestAdvice(t *testing.T) {
	all, conversions, disabled := advice(t), 0, 0
	for where, text := range all {
		if strings.Contains(text, "<h3>Disable it</h3>") {
			disabled++
			if !disabling.MatchString(text) {
				t.Errorf("%s: no command disables it", where)
			}
		}
		for _, m := range commands.FindAllStringSubmatch(text, -1) {
			if command := html.UnescapeString(m[1]); !strings.Contains(command, "\n") && report.Complete(command) != (m[2] != "") {
				t.Errorf("%s: a button to copy what is to be filled in, or none: %s", where, command)
			}
		}
		text = strings.ReplaceAll(html.UnescapeString(text), "Never delete the CRD", "")
		if found := destroying.FindString(text); found != "" {
			t.Errorf("%s: %q in\n%s", where, found, text)
		}
		if strings.Contains(text, "Conversion of ") {
			if conversions++; strings.Contains(text, "delete the configuration") || strings.Contains(text, "configuration that names the Service") {
				t.Errorf("%s: the configuration of a conversion is the CRD:\n%s", where, text)
			}
		}
		for _, at := range changing.FindAllStringIndex(text, -1) {
			before := text[:at[0]]
			if !strings.HasPrefix(where, "runbook ") {
				before = before[max(strings.LastIndex(before, "kubectl get "), strings.LastIndex(before, "kubectl patch "), strings.LastIndex(before, "kubectl delete "), 0):]
			}
			if !kept.MatchString(before) {
				t.Errorf("%s: %s without a copy behind %.200s", where, text[at[0]:at[1]], before)
			}
		}
	}
	if conversions < 20 || disabled < 40 {
		t.Errorf("%d errors of conversions, %d webhooks to disable", conversions, disabled)
	}
}
