package classify

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTexts: a message gives the reason that is so.
func TestTexts(t *testing.T) {
	const webhook = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: policy}
webhooks:
- name: a.policy.example.com
  clientConfig: {url: "https://policy.example.com"}
  sideEffects: None
  admissionReviewVersions: [v1]
  timeoutSeconds: 5
`
	rule := func(operations, resources string) string {
		return fmt.Sprintf("  rules: [{operations: [%s], apiGroups: [''], apiVersions: [v1], resources: [%s]}]\n", operations, resources)
	}
	const selector = "  objectSelector: {matchLabels: {a: b}}\n"
	for name, tc := range map[string]struct {
		manifest, check string
		want, not       []string
	}{
		"evictions":          {rule("CREATE", "pods/eviction"), "delete-path", []string{"node drains stop"}, []string{"namespaces", "garbage"}},
		"Pods":               {rule("DELETE", "pods"), "delete-path", []string{"Pods are never gone"}, []string{"cannot be deleted"}},
		"namespaces":         {rule("DELETE", "namespaces"), "delete-path", []string{"namespaces cannot be deleted"}, []string{"drains", "garbage"}},
		"finalizers":         {rule("UPDATE", "namespaces/finalize"), "delete-path", []string{"namespaces stay Terminating"}, []string{"drains", "cannot be deleted"}},
		"the selector":       {rule("CONNECT", "pods/exec") + selector, "dead-rule", []string{"a CONNECT to pods/exec carries no labels", "objectSelector"}, []string{"never see CONNECT"}},
		"another operation":  {rule("CREATE", "pods/exec"), "dead-rule", []string{"webhooks never see CREATE of pods/exec"}, []string{"labels"}},
		"another, selecting": {rule("CREATE", "pods/exec") + selector, "dead-rule", []string{"webhooks never see CREATE of pods/exec"}, []string{"labels"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "webhook.yaml")
			if err := os.WriteFile(file, []byte(webhook+tc.manifest), 0o600); err != nil {
				t.Fatal(err)
			}
			var messages []string
			for _, f := range reportOn(t, file).Findings {
				if f.Check.Name == tc.check {
					messages = append(messages, f.Message)
				}
			}
			found := strings.Join(messages, "; ")
			for _, want := range tc.want {
				if !strings.Contains(found, want) {
					t.Errorf("no %q in %q", want, found)
				}
			}
			for _, not := range tc.not {
				if strings.Contains(found, not) {
					t.Errorf("%q in %q", not, found)
				}
			}
		})
	}
}
