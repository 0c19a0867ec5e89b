package page

import (
	"context"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// hasText is true where an element that the selector finds has the text, and is on
// the first screen.
func hasText(selector, text string) string {
	return `[...document.querySelectorAll(` + quoted(selector) + `)].some((e) => e.innerText.includes(` + quoted(text) + `) && e.getBoundingClientRect().bottom <= 900 && e.getBoundingClientRect().right <= 1440)`
}

// once wants each command of a cause to be printed once.
func once(b *tab) {
	b.Helper()
	for _, twice := range evaluate[[]string](b, `[...document.querySelectorAll('details.group, .top-cause')].flatMap((cause) => [...cause.querySelectorAll('.command code')].map((e) => e.textContent).filter((text, i, all) => all.indexOf(text) !== i))`) {
		b.Errorf("printed twice: %s", twice)
	}
}

// TestIncident looks at a page that stays open: at what is on the first screen, at what
// changes by itself, and at an API server that goes.
func TestIncident(t *testing.T) {
	env := testenv.New(t, cluster.Options{WithoutControllers: true})
	manifest := testenv.Get(os.ReadFile("testdata/cluster.yaml"))(t)
	env.Install(t, manifest)
	address := env.Run(t).URL
	b := open(t)
	b.look("light", 1440, 900)
	b.get(address + "/")
	b.until(hasText(".headline", " down"))
	b.shoot("incident")
	b.until(hasText(".headline", "This stops: creation of Pods"))
	b.until(hasText(".headline .command", "kubectl get deploy,svc,endpointslices,pods -n guard"))
	b.until(hasText(".headline", "Failing for at least"))
	b.until(hasText("details.group summary", "Service policy/policy:443 does not exist"))
	b.until(`document.documentElement.scrollHeight <= 1800`) // two screens
	once(b)
	b.until(`[...document.querySelectorAll('main tr')].every((e) => e.getBoundingClientRect().height < 250 && e.getBoundingClientRect().right <= 1440)`)
	b.until(`!document.querySelector('.copy').hidden`)
	b.look("dark", 1440, 900)
	b.shoot("incident-dark")
	b.look("dark", 390, 844)
	b.shoot("incident-phone")
	b.until(hasText(".headline .command", "kubectl get deploy,svc,endpointslices,pods -n guard") + ` && document.documentElement.scrollWidth <= 390`)
	b.until(`[...document.querySelectorAll('.top nav a')].every((e) => e.getClientRects().length === 1 && e.offsetHeight < 40)`) // no word is broken
	b.get(address + "/webhooks")
	b.until(`[...document.querySelectorAll('table.cards tr > *')].every((e) => e.getBoundingClientRect().right <= 390)`)
	b.get(address + "/")
	b.look("light", 1440, 900)

	evaluate[bool](b, `window.kept = true`)
	testenv.Must(t, env.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "policy", metav1.DeleteOptions{}))
	b.until(`window.kept && !document.body.innerText.includes('names.policy.example.com')`)

	// An age that moves, and the watch that broke, without a click.
	age := evaluate[string](b, `document.querySelector('[data-age]').textContent`)
	b.until(`window.kept && document.querySelector('[data-age]').textContent !== ` + quoted(age))
	env.Plane.APIServer.Kill()
	b.until(`window.kept && /Live updates lost since .*watch/.test(document.querySelector('.note.bad')?.innerText)`)
	b.until(`[...document.querySelectorAll('time')].every((e) => e.title.includes(' here')) && document.querySelectorAll('.note.bad time, .headline time').length > 1`)
	b.shoot("incident-broken")
	testenv.Must(t, env.Plane.APIServer.Restart(context.WithoutCancel(t.Context())))
	b.until(`window.kept && !document.querySelector('.note.bad')`)
	b.quiet(strings.TrimSuffix(address, "/"))
}
