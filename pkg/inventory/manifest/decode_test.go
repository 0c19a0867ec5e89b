package manifest

import (
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
)

// TestMistypedFields names the field and both types.
func TestMistypedFields(t *testing.T) {
	for text, want := range map[string]string{
		"webhooks: [{name: a}, {timeoutSeconds: x}]":    "webhooks[1].timeoutSeconds: must be of type int32, not string",
		"webhooks: [{timeoutSeconds: 1.5}]":             "webhooks[0].timeoutSeconds: must be of type int32, not number 1.5",
		"webhooks: [{name: 10}]":                        "webhooks[0].name: must be of type string, not number: write it in quotes",
		"webhooks: {name: a}":                           "webhooks: must be of type []v1.ValidatingWebhook, not object",
		"webhooks: [{clientConfig: {service: policy}}]": "webhooks[0].clientConfig.service: must be of type v1.ServiceReference, not string",
	} {
		o, _ := Read([]string{"-"}, Options{Stdin: strings.NewReader("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: policy}\n" + text)})
		_, got, _ := strings.Cut(strings.Join(describe(o), "\n"), "ValidatingWebhookConfiguration/policy: ")
		expect.Equal(t, want, got)
	}
}

// TestFaultsHaveTheLineOfTheirField: of YAML in block style, whichever webhook it is in.
func TestFaultsHaveTheLineOfTheirField(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"the second webhook": {
			hookYAML + "- name: b.example.com\n  timeoutSeconds: x\n",
			`<stdin>:12: ValidatingWebhookConfiguration/policy: webhooks[1].timeoutSeconds: must be of type int32, not string`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := Read([]string{"-"}, Options{Stdin: strings.NewReader(test.text)})
			expect.Equal(t, []string{"! " + test.want}, describe(o))
		})
	}
}
