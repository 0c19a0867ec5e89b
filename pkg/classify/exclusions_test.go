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
	const own = `exclusions: [{apiGroup: "", apiVersion: v1, kind: Node, scope: Cluster, name: ["*"], username: "*"}]`
	for _, test := range []struct {
		about, version, policy, group, resources, more, want string
	}{
		{"plain", "v1.33.1", "", "coordination.k8s.io", "leases", "", "warning: is on the path"},
		{"some leases", "v1.33.1-eks-1fbb135", "", "coordination.k8s.io", "leases", "", "info: may be on the path of the control plane through rules[0]"},
		{"no lease", "v1.33.1-eks-1fbb135", "", "coordination.k8s.io", "leases", nodeLeases, ""},
		{"node leases elsewhere", "v1.33.1", "", "coordination.k8s.io", "leases", nodeLeases, "warning: is on the path"},
		{"nodes", "v1.33.1-eks-1fbb135", "", "", "nodes", "", "warning: is on the path"},
		{"the cluster's own rules", "v1.33.1", own, "", "nodes", "", ""},
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
			policy := must.Get(ParsePolicy([]byte(test.policy)))(t)
			o, _ := manifest.Read([]string{"-"}, manifest.Options{Stdin: strings.NewReader(text)})
			o.Server = must.Get(inventory.ParseVersion(test.version))(t)
			got := ""
			for _, f := range evaluate(t, policy, o.Snapshot(time.Time{})).Findings {
				if f.Check == controlPlanePath {
					got = f.Severity.String() + ": " + f.Message
				}
			}
			if test.want == "" && got != "" || !strings.HasPrefix(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
			if strings.HasPrefix(test.want, "info") && !strings.Contains(got, "unless the API server's exclusion rules keep them from webhooks, as those") {
				t.Errorf("%q does not say why it is one severity lower", got)
			}
		})
	}
}

// TestExclusionsOfAPolicy: a rule that an API server would drop is an error that says
// what it must have.
func TestExclusionsOfAPolicy(t *testing.T) {
	for _, test := range []struct{ rule, want string }{
		{`{apiGroup: "*", apiVersion: v1, kind: Node, scope: Cluster, name: ["*"], username: "*"}`, "must name one apiGroup and one kind"},
		{`{apiGroup: "", apiVersion: v1, kind: Node, scope: Any, name: ["*"], username: "*"}`, "scope must be Cluster or Namespaced"},
		{`{apiGroup: "", apiVersion: v1, kind: Pod, scope: Namespaced, name: ["*"], username: "*"}`, "must have a namespace"},
		{`{apiGroup: "", apiVersion: v1, kind: Node, scope: Cluster, username: "*"}`, "must have an apiVersion, a list of names"},
	} {
		_, err := ParsePolicy([]byte("exclusions: [" + test.rule + "]"))
		if err == nil || !strings.Contains(err.Error(), "exclusions[0]: "+test.want) {
			t.Errorf("%s: %v, want %q", test.rule, err, test.want)
		}
	}
}
