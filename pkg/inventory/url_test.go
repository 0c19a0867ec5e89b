package inventory

import (
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// TestUnreadableURLs: the API server accepts none such; a file may hold one.
func TestUnreadableURLs(t *testing.T) {
	for url, want := range map[string]string{
		"https://hooks.example.com/v":         "",
		"https://[::1]:8443/v":                "",
		"xxxxxxxxxxxxxxxxxxxxxxx":             "", // blanked in an archive
		"https://[::1/?token=secret":          "missing ']' in host",
		"https://hooks.example.com:http":      "invalid port",
		"hooks.example.com/v":                 "no host in it",
		"https:///v":                          "no host in it",
		"http://127.0.0.1:8080/v":             `scheme "http", where the API server allows https alone`,
		"https://h.example.com/?token=secret": "a query",
		"https://h.example.com/#secret":       "a fragment",
		"https://user:secret@h.example.com/":  "credentials",
	} {
		w := admissionv1.ValidatingWebhook{Name: "v.example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: &url}}
		c := &admissionv1.ValidatingWebhookConfiguration{Webhooks: []admissionv1.ValidatingWebhook{w}}
		s := Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{c}}.Snapshot(time.Time{})
		var errs []string
		for _, e := range s.Errors {
			errs = append(errs, e.Error())
		}
		got := strings.Join(errs, "\n")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: errors %q, want %q", url, got, want)
		}
		if strings.Contains(got, "secret") {
			t.Errorf("%s: %q shows a secret", url, got)
		}
	}
}
