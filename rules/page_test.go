package rules

import (
	"strings"
	"testing"
	"text/template"
)

// TestPageURL: with the address of the status page every alert leads there, those
// on a webhook to that webhook; without one none has the annotation.
func TestPageURL(t *testing.T) {
	toWebhook := 0
	for _, a := range all() {
		bare, err := Options{}.rule(a)
		if err != nil {
			t.Fatal(err)
		}
		if _, there := bare.Annotations["page_url"]; there {
			t.Errorf("%s leads to a page that is not configured", a.Name)
		}
		rule, err := Options{PageURL: "https://auditor.example.com/"}.rule(a)
		if err != nil {
			t.Fatal(err)
		}
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
	parsed, err := template.New("").Parse("{{ $labels := . }}" + text)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := parsed.Execute(&b, map[string]string{"type": "admit", "name": "a&b.example.com"}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
