package packaging

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"github.com/webhook-auditor/webhook-auditor/manifests/packaging/must"
)

// notes are what Helm prints after an install, without a cluster.
func notes(t *testing.T, namespace, values string) string {
	t.Helper()
	chart := must.Get(loader.LoadDir("../chart"))(t)
	files := must.Get(rendered(chart, namespace, values))(t)
	return files["webhook-auditor/templates/NOTES.txt"]
}

// TestNotes: they name the commands that check an install, and what keeps the
// auditor from being scraped.
func TestNotes(t *testing.T) {
	const label = "kubectl label namespace openshift-webhook-auditor openshift.io/cluster-monitoring=true"
	for name, test := range map[string]struct {
		namespace, values string
		want, never       []string
	}{
		"plain": {
			namespace, `{}`,
			[]string{"--namespace webhook-auditor rollout status deployment/webhook-auditor", "test webhook-auditor --logs", "kubectl get webhookaudit"},
			[]string{"clusteroperator", "openshift", "WARNING"},
		},
		"OpenShift":                    {openshift, `{openshift: {enabled: true}}`, []string{label, "kubectl get clusteroperator webhook-auditor"}, []string{"supports"}},
		"OpenShift, another namespace": {namespace, `{openshift: {enabled: true}}`, []string{"namespaces named openshift-*"}, nil},
		"without the probe":            {namespace, `{probe: {enabled: false}}`, []string{"ports 443, 6443, 8443"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			text := notes(t, test.namespace, test.values)
			for _, want := range test.want {
				if !strings.Contains(text, want) {
					t.Errorf("it lacks %q:\n%s", want, text)
				}
			}
			for _, never := range test.never {
				if strings.Contains(text, never) {
					t.Errorf("it has %q:\n%s", never, text)
				}
			}
		})
	}
}

// TestNamespacesOfOthersAreRefused: a ResourceQuota for critical Pods in
// kube-system would keep those of the cluster from being created.
func TestNamespacesOfOthersAreRefused(t *testing.T) {
	for _, name := range []string{"default", "kube-system", "kube-public"} {
		if _, err := templated(t, name, `{}`); err == nil || !strings.Contains(err.Error(), "--create-namespace") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNamespaceOfTheRelease carries the label without which the Prometheus of
// OpenShift does not look into it.
func TestNamespaceOfTheRelease(t *testing.T) {
	text := written(t, `{namespace: {create: true}, openshift: {enabled: true}}`)
	if !strings.Contains(text, `openshift.io/cluster-monitoring: "true"`) {
		t.Errorf("it is missing:\n%s", text)
	}
}

// TestDocumentedPoliciesAreAccepted: the chart takes each example of the
// documentation.
func TestDocumentedPoliciesAreAccepted(t *testing.T) {
	text := must.Get(os.ReadFile("../../pkg/classify/POLICY.md"))(t)
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(examples) < 6 {
		t.Fatalf("found %d examples only", len(examples))
	}
	for _, e := range examples {
		if _, err := templated(t, namespace, "policy:\n  "+strings.ReplaceAll(e[1], "\n", "\n  ")); err != nil {
			t.Errorf("%v:\n%s", err, e[1])
		}
	}
}
