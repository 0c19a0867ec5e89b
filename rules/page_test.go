package rules

import (
	"strings"
	"testing"
	"text/template"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// TestPageURL: with the address of the status page every alert leads there, those
// on a webhook to that webhook; without one none has the annotation.
func TestPageURL(t *testing.T) {
	toWebhook := 0
	for _, a := range all() {
		bare := must.Get(Options{}.rule(a))(t)
		if _, there := bare.Annotations["page_url"]; there {
			t.Errorf("%s leads to a page that is not configured", a.Name)
		}
		rule := must.Get(Options{PageURL: "https://auditor.example.com/"}.rule(a))(t)
		got := expanded(t, rule.Annotations["page_url"])
		switch {
		case got == "https://auditor.example.com/webhooks?type=admit&q=a%26b.example.com":
			toWebhook++
		case got != "https://auditor.example.com/":
			t.Errorf("%s leads to %s", a.Name, got)
		}
	}
	if toWebhook < 10 {
		t.Errorf("%d alerts lead to their webhook", toWebhook)
	}
}

// expanded is an annotation as Prometheus expands it.
func expanded(t *testing.T, text string) string {
	t.Helper()
	parsed := must.Get(template.New("").Parse("{{ $labels := . }}" + text))(t)
	var b strings.Builder
	must.Succeed(t, parsed.Execute(&b, map[string]string{"type": "admit", "name": "a&b.example.com"}))
	return b.String()
}
