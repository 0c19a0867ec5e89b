package manifest

import (
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
)

// TestMistypedFields names the field and its value, as the API server does.
func TestMistypedFields(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"a string for a number":  {"webhooks: [{name: a}, {name: b, timeoutSeconds: x}]", `webhooks[1].timeoutSeconds: Invalid value: "x": must be of type int32`},
		"a fraction":             {"webhooks: [{timeoutSeconds: 1.5}]", `webhooks[0].timeoutSeconds: Invalid value: 1.5: must be of type int32`},
		"a number for a string":  {"webhooks: [{name: 10}]", `webhooks[0].name: Invalid value: 10: must be of type string: write it in quotes`},
		"a number for bytes":     {"webhooks: [{clientConfig: {caBundle: 10}}]", `webhooks[0].clientConfig.caBundle: Invalid value: 10: must be of type string`},
		"an object for an array": {"webhooks: {name: a}", `webhooks: Invalid value: must be of type array`},
		"an array for an object": {"webhooks: [{name: a, objectSelector: [a]}]", `webhooks[0].objectSelector: Invalid value: must be of type object`},
		"a string for an object": {"webhooks: [{name: a}, {clientConfig: {service: policy}}]", `webhooks[1].clientConfig.service: Invalid value: "policy": must be of type object`},
		"a long string":          {"webhooks: [{timeoutSeconds: " + strings.Repeat("x", 100) + "}]", `webhooks[0].timeoutSeconds: Invalid value: "` + strings.Repeat("x", 80) + `": must be of type int32`},
	} {
		t.Run(name, func(t *testing.T) {
			text := "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: policy}\n" + test.text
			o, _ := Read([]string{"-"}, Options{Stdin: strings.NewReader(text)})
			_, got, _ := strings.Cut(strings.Join(describe(o), "\n"), "ValidatingWebhookConfiguration/policy: ")
			expect.Equal(t, test.want, got)
		})
	}
}

// TestFaultsHaveTheLineOfTheirField: of YAML in block style, whichever webhook it is in.
func TestFaultsHaveTheLineOfTheirField(t *testing.T) {
	const crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.example.com}\nspec:\n  group: example.com\n  conversion:\n"
	for name, test := range map[string]struct{ text, want string }{
		"the second webhook": {
			hookYAML + "- name: b.example.com\n  timeoutSeconds: x\n",
			`<stdin>:12: ValidatingWebhookConfiguration/policy: webhooks[1].timeoutSeconds: Invalid value: "x": must be of type int32`,
		},
		"a misspelt strategy": {
			crd + "    strategy: webhook\n",
			`<stdin>:7: CustomResourceDefinition/as.example.com: spec.conversion.strategy: Unsupported value: "webhook": supported values: "None", "Webhook"`,
		},
		"a misspelt field": {
			crd + "    strategi: Webhook\n",
			`<stdin>:7: CustomResourceDefinition/as.example.com: spec.conversion.strategi: there is no such field`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := Read([]string{"-"}, Options{Stdin: strings.NewReader(test.text)})
			expect.Equal(t, []string{"! " + test.want}, describe(o))
		})
	}
}
