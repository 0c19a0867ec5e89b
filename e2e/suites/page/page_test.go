package page

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// served runs an auditor on a cluster with the webhooks of testdata/cluster.yaml,
// and returns the address of the page.
func served(t *testing.T) string {
	t.Helper()
	env := stock.UseAlone(t)
	manifest := testenv.Get(os.ReadFile("testdata/cluster.yaml"))(t)
	env.Install(t, manifest)
	env.Widgets(t, strings.ToLower(t.Name())+".example.com", &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: "gone", Name: "gone"}},
			ConversionReviewVersions: []string{"v1"},
		},
	})
	return env.Run(t).URL
}

// rows counts the rows of the table of webhooks that are shown.
const rows = `[...document.querySelectorAll('table.webhooks tbody tr')].filter((r) => !r.hidden).length`

// TestServedPage follows a user from the finding to its webhook, its runbook and
// the drawings.
func TestServedPage(t *testing.T) {
	address := served(t)
	b := open(t)
	b.get(address + "/")
	b.until(`document.querySelector('h1').textContent === 'Overview' && document.querySelectorAll('.finding-critical').length > 0`)
	b.until(`document.querySelector('.headline').innerText.includes(' down')`)
	b.accessible("overview")

	b.click(`details.group:has(a[href*="names.policy"]) > summary`, `[...document.querySelectorAll('.finding-critical a[href*="names.policy"]')].some((e) => e.checkVisibility())`)
	b.click(`.finding-critical a[href*="names.policy"]`, `document.querySelector('h1').textContent === 'names.policy.example.com'`)
	b.until(`document.body.innerText.includes('kubectl delete validatingwebhookconfiguration policy')`)
	b.until(`document.body.innerText.includes('which is one of this cluster: mesh') && document.body.innerText.includes('"><script>alert(1)</script>')`)
	b.accessible("webhook")
	b.click(`.finding a[href*="checks/service-missing"]`, `document.querySelector('h1').textContent === 'service-missing' && document.querySelector('.runbook h2').textContent === 'Meaning'`)
	b.accessible("check")

	b.search(address)
	b.asks(address)

	b.get(address + "/webhooks/validating/policy/name.policy.example.com")
	b.until(`document.querySelector('h1').textContent === 'Not found'`)
	b.click(`main a[href$="q=policy"]`, rows+` > 0`)
	b.forgive("404")
	for _, path := range []string{"/changes", "/bootstrap", "/webhooks/validating/guard/pods.guard.example.com", "/nothing"} {
		b.get(address + path)
		b.accessible("page" + strings.ReplaceAll(path, "/", "-"))
	}
	b.forgive("404")
	b.quiet(address)
}

// forgive removes the errors with the text, which a test provoked.
func (b *tab) forgive(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var rest []string
	for _, e := range b.errors {
		if !strings.Contains(e, text) {
			rest = append(rest, e)
		}
	}
	b.errors = rest
}

// search searches the table by its form.
func (b *tab) search(address string) {
	b.Helper()
	b.get(address + "/webhooks")
	b.until(rows + ` === 6`)
	b.accessible("webhooks")
	b.fill("form.filter input[name=q]", "MESH")
	b.do(chromedp.KeyEvent("\r"))
	b.until(`location.search === '?q=MESH' && ` + rows + ` === 2`)
	b.click("a.reset", rows+` === 6`)
	b.get(address + "/webhooks?q=service-missing")
	b.until(rows + ` === 3`)
	b.get(address + "/webhooks?q=mesh&type=admit")
	b.until(rows + ` === 2`)
}

func (b *tab) submit(address, text string) {
	b.Helper()
	b.get(address + "/ask")
	evaluate[bool](b, `document.querySelector('textarea').value = `+quoted(text)+`, document.querySelector('textarea').form.requestSubmit(), true`)
}

// asks puts a request, an object and an error into the box, and searches from any page.
func (b *tab) asks(address string) {
	b.Helper()
	b.submit(address, "kubectl create cm -n mesh")
	b.until(`document.querySelectorAll('svg.chain rect').length === 5 && document.body.innerText.includes('CREATE configmaps in mesh')`)
	b.until(inside("svg.chain"))
	b.accessible("ask-request")
	b.submit(address, "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a, namespace: mesh}")
	b.until(`document.querySelectorAll('svg.chain rect').length === 5 && document.querySelectorAll('rect.bar-mutating').length === 3`)
	b.get(address + "/ask")
	b.click(".examples form:first-of-type button", `document.querySelector('.answer a[href*="checks/"]') !== null && !document.querySelector('.answer .copy').hidden && !location.search`)
	b.accessible("ask-error")

	b.get(address + "/bootstrap")
	b.until(`document.querySelectorAll('table tbody tr').length > 0`)
	b.do(chromedp.KeyEvent("/"))
	b.until(`document.activeElement.matches('header input[type=search]')`)
	b.do(chromedp.KeyEvent("guard\r"))
	b.until(`document.querySelector('h1').textContent === 'Ask' && document.querySelector('.answer a').textContent.startsWith('pods.guard.example.com')`)
	b.accessible("ask-name")
}

// inside is true where no shape or text of the drawing is outside of it.
func inside(selector string) string {
	return `(() => { const svg = document.querySelector(` + quoted(selector) + `), frame = svg.getBoundingClientRect();
		return [...svg.querySelectorAll('rect, text, path:not(.arrow)')].every((e) => { const r = e.getBoundingClientRect(); return r.left >= frame.left - 1 && r.right <= frame.right + 1 && r.top >= frame.top - 1 && r.bottom <= frame.bottom + 1; }) })()`
}

// TestReportFile: the file works from a disk, whatever the names in it are.
func TestReportFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.html")
	result := testenv.Command(t, "audit", "-o", "html", "testdata/cluster.yaml", "testdata/hostile.yaml", "--fail-on", "never")
	testenv.Must(t, os.WriteFile(file, []byte(result.Stdout), 0o600))
	b := open(t)
	address := (&url.URL{Scheme: "file", Path: file}).String()
	b.get(address)
	b.until(`document.querySelector('h1').textContent === 'Webhook report' && ` + rows + ` === 7`)
	b.until(`document.body.innerText.includes('"><script>alert(7)</script>')`)
	b.accessible("file")
	b.quiet(address)
}

// TestPrinted: on paper nothing is cut off at the right, what only a screen can use
// is gone, and the text is dark on white whatever the theme.
func TestPrinted(t *testing.T) {
	address := served(t)
	b := open(t)
	b.onPaper()
	for name, path := range map[string]string{
		"overview": "/", "webhooks": "/webhooks", "webhook": "/webhooks/validating/policy/names.policy.example.com",
		"bootstrap": "/bootstrap", "check": "/checks/service-missing",
	} {
		b.get(address + path)
		b.shoot("print-" + name)
		if cut := evaluate[[]string](b, cutOff); len(cut) > 0 {
			t.Errorf("%s: cut off: %q", name, cut)
		}
		if hidden := evaluate[int](b, `[...document.querySelectorAll('.finding')].filter((e) => e.getBoundingClientRect().height === 0).length`); hidden > 0 {
			t.Errorf("%s: %d findings are folded away, and paper does not unfold them", name, hidden)
		}
		if left := evaluate[int](b, `[...document.querySelectorAll('nav, form, button')].filter((e) => e.checkVisibility()).length`); left > 0 {
			t.Errorf("%s: %d elements that paper has no use for", name, left)
		}
		if colors := evaluate[string](b, `getComputedStyle(document.body).color + getComputedStyle(document.body).backgroundColor`); colors != "rgb(0, 0, 0)rgb(255, 255, 255)" {
			t.Errorf("%s: text and paper are %s", name, colors)
		}
	}
}

// cutOff are the elements that are wider than the sheet, and those that hide what
// does not fit into them.
const cutOff = `[...document.querySelectorAll('main *')].filter((e) => e.checkVisibility() && !e.closest('.visually-hidden') &&
	(e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 ||
	 (e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && getComputedStyle(e).overflowX !== 'visible')))
	.map((e) => e.tagName + '.' + e.getAttribute('class') + ' ' + Math.round(e.getBoundingClientRect().right) + ' ' + e.textContent.slice(0, 40))`
