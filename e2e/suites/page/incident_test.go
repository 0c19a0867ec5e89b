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

// within is true where an element that the selector finds has the text, and is on
// the first screen.
func within(selector, text string) string {
	return `[...document.querySelectorAll(` + quoted(selector) + `)].some((e) => e.innerText.includes(` + quoted(text) + `) && e.getBoundingClientRect().bottom <= 900 && e.getBoundingClientRect().right <= 1440)`
}

// TestIncident looks at a page that stays open: at what is on the first screen once
// the conditions have followed, at what changes by itself, and at an API server that
// goes.
func TestIncident(t *testing.T) {
	env := testenv.New(t, cluster.Options{WithoutControllers: true})
	manifest, err := os.ReadFile("testdata/cluster.yaml")
	testenv.Must(t, err)
	env.Install(t, manifest)
	address := env.Run(t, "--degraded.inertia=1s").URL
	b := open(t)
	b.look("light", 1440, 900)
	b.get(address + "/")
	b.until(`[...document.querySelectorAll('tr')].some((e) => /^Degraded\s+True/.test(e.innerText))`)
	b.shoot("incident")
	b.until(within(".headline", "cannot be called: Service"))
	b.until(within(".headline", "does not exist"))
	b.until(within(".headline .command", "kubectl get service"))
	b.until(within("#overview details.group .finding", "is refused (failurePolicy Fail)"))
	b.until(`[...document.querySelectorAll('#overview tr')].every((e) => e.getBoundingClientRect().height < 250 && e.getBoundingClientRect().right <= 1440)`)
	b.until(`!document.querySelector('.copy').hidden`)
	b.look("dark", 1440, 900)
	b.shoot("incident-dark")
	b.look("dark", 390, 844)
	b.shoot("incident-phone")
	b.until(within(".headline .command", "kubectl get service") + ` && document.documentElement.scrollWidth <= 390`)
	b.look("light", 1440, 900)

	evaluate[bool](b, `window.kept = true`)
	testenv.Must(t, env.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "policy", metav1.DeleteOptions{}))
	b.until(`window.kept && !document.body.innerText.includes('names.policy.example.com')`)

	// An age that moves, and the watch that broke, without a click.
	age := evaluate[string](b, `document.querySelector('[data-age]').textContent`)
	b.until(`window.kept && document.querySelector('[data-age]').textContent !== ` + quoted(age))
	env.Plane.APIServer.Kill()
	b.until(`window.kept && /broken: .*watch.*since/.test(document.querySelector('.note.bad')?.innerText)`)
	b.until(`[...document.querySelectorAll('time')].every((e) => e.innerText.includes(' here)')) && document.querySelectorAll('.note.bad time, td time, .headline time').length > 2`)
	b.shoot("incident-broken")
	testenv.Must(t, env.Plane.APIServer.Restart(context.WithoutCancel(t.Context())))
	b.until(`window.kept && !document.querySelector('.note.bad')`)
	b.quiet(strings.TrimSuffix(address, "/"))
}
