package classify

import (
	"fmt"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
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
	const inSystem = "  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}\n"
	for name, tc := range map[string]struct {
		manifest, check string
		want, not       []string
	}{
		"evictions":          {rule("CREATE", "pods/eviction"), "delete-path", []string{"node drains stop"}, []string{"namespaces", "garbage"}},
		"Pods":               {rule("DELETE", "pods"), "delete-path", []string{"Pods are never gone"}, []string{"cannot be deleted"}},
		"namespaces":         {rule("DELETE", "namespaces"), "delete-path", []string{"namespaces cannot be deleted"}, []string{"drains", "garbage"}},
		"finalizers":         {rule("UPDATE", "namespaces/finalize"), "delete-path", []string{"namespaces stay Terminating"}, []string{"drains", "cannot be deleted"}},
		"the selector":       {rule("CONNECT", "pods/exec") + selector, "dead-rule", []string{"no CONNECT of pods/exec carries labels", "objectSelector"}, []string{"never see CONNECT"}},
		"another operation":  {rule("CREATE", "pods/exec"), "dead-rule", []string{"the API server calls no webhook for CREATE of pods/exec"}, []string{"labels"}},
		"kube-system":        {rule("UPDATE", "namespaces") + inSystem, "control-plane-path", []string{"is on the path", "namespaces of kube-system are refused"}, []string{"unless"}},
		"its status":         {rule("UPDATE", "namespaces/status") + inSystem, "control-plane-path", []string{"is on the path", "namespaces/status of kube-system are refused"}, []string{"unless"}},
		"every Namespace":    {rule("UPDATE", "namespaces, namespaces/status"), "control-plane-path", []string{"namespaces and namespaces/status are refused"}, []string{"kube-system"}},
		"no operation":       {rule("", "pods"), "dead-rule", nil, []string{"the API server"}},
		"another, selecting": {rule("CREATE", "pods/exec") + selector, "dead-rule", []string{"the API server calls no webhook for CREATE of pods/exec"}, []string{"labels"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := must.File(t, "webhook.yaml", webhook+tc.manifest)
			var messages []string
			for _, f := range reportOn(t, file).Findings {
				if f.Check.Name == tc.check {
					messages = append(messages, f.Message)
				}
			}
			found := strings.Join(messages, "; ")
			expect.Contains(t, found, tc.want...)
			for _, not := range tc.not {
				if strings.Contains(found, not) {
					t.Errorf("%q in %q", not, found)
				}
			}
		})
	}
}

// TestGroupsOfKubernetes: of Kubernetes' own groups it is known which version serves
// them by default; another that is not served may come with its CRDs.
func TestGroupsOfKubernetes(t *testing.T) {
	for _, tc := range []struct {
		group, resource string
		minor           int
		want            bool
	}{
		{"resource.k8s.io", "resourceclaims", 33, true},
		{"resource.k8s.io", "resourceclaims", 34, false},
		{"storagemigration.k8s.io", "storageversionmigrations", 36, true},
		{"storagemigration.k8s.io", "storageversionmigrations", 37, false},
		{"gateway.networking.k8s.io", "gateways", 37, false},
	} {
		rule := fmt.Sprintf("{operations: [CREATE], apiGroups: [%s], apiVersions: [v1], resources: [%s]}", tc.group, tc.resource)
		found := ofRelease(t, registering(rule), fmt.Sprintf("v1.%d.0", tc.minor))
		if got := strings.Contains(found, "dead-rule"); got != tc.want {
			t.Errorf("%s on v1.%d: dead-rule %t, want %t", tc.group, tc.minor, got, tc.want)
		}
	}
}
