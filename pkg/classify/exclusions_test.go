package classify

import (
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

// TestControlPlanePathOfEKS: what EKS keeps from webhooks is not reported, and what it
// keeps from them for some users or names alone is one severity lower.
func TestControlPlanePathOfEKS(t *testing.T) {
	const nodeLeases = "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-node-lease}}"
	for _, test := range []struct {
		about, version, group, resources, more, want string
	}{
		{"plain", "v1.33.1", "coordination.k8s.io", "leases", "", "warning: is on the path"},
		{"some leases", "v1.33.1-eks-1fbb135", "coordination.k8s.io", "leases", "", "info: may be on the path of the control plane through rules[0]"},
		{"no lease", "v1.33.1-eks-1fbb135", "coordination.k8s.io", "leases", nodeLeases, ""},
		{"node leases elsewhere", "v1.33.1", "coordination.k8s.io", "leases", nodeLeases, "warning: is on the path"},
		{"nodes", "v1.33.1-eks-1fbb135", "", "nodes", "", "warning: is on the path"},
	} {
		t.Run(test.about, func(t *testing.T) {
			text := strings.NewReplacer("GROUP", test.group, "RESOURCES", test.resources, "MORE", test.more).Replace(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: w}
webhooks:
- name: w.example.com
  clientConfig: {service: {namespace: hooks, name: hook}}
  rules: [{operations: [CREATE, UPDATE], apiGroups: ["GROUP"], apiVersions: ["*"], resources: [RESOURCES]}]
  sideEffects: None
  admissionReviewVersions: [v1]
  MORE
`)
			o, _ := manifest.Read([]string{"-"}, manifest.Options{Stdin: strings.NewReader(text)})
			o.Server = must.Get(inventory.ParseVersion(test.version))(t)
			got := ""
			for _, f := range evaluate(t, DefaultPolicy(), o.Snapshot(time.Time{})).Findings {
				if f.Check == controlPlanePath {
					got = f.Severity.String() + ": " + f.Message
				}
			}
			if test.want == "" && got != "" || !strings.HasPrefix(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
			if strings.HasPrefix(test.want, "info") && !strings.Contains(got, "unless the API server's exclusion rules keep them from webhooks") {
				t.Errorf("%q does not say why it is one severity lower", got)
			}
		})
	}
}
