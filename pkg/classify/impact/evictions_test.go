package impact

import (
	"fmt"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

// TestEvictions: which webhooks and policies a drain of node w1 meets. An eviction has the
// name of its Pod and none of its labels. All nine were silent.
func TestEvictions(t *testing.T) {
	const pods = "apiVersion: v1\nkind: Namespace\nmetadata: {name: queue, labels: {kubernetes.io/metadata.name: queue}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: db-0, namespace: queue, labels: {app: db}}\nspec: {nodeName: %s, containers: [{name: b, image: b}]}\n---\n"
	const hook = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: drain}\nwebhooks: [{name: drain.example.com, clientConfig: {service: {namespace: h, name: h}}, sideEffects: None, admissionReviewVersions: [v1], rules: [{apiGroups: [''], apiVersions: [v1], operations: [%s], resources: [%s]}], %s}]\n"
	const policy = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: drain.example.com}\nspec: {matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods/eviction]}]}, validations: [{expression: 'false'}]}\n---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: drain}\nspec: {policyName: drain.example.com, validationActions: [%s]}\n"
	for name, test := range map[string]struct{ node, object, want string }{
		"by name":             {"w1", fmt.Sprintf(hook, "CREATE", "pods/eviction", "failurePolicy: Ignore"), `is asked about the eviction of queue/db-0; a refusal ends kubectl drain with ` + "`error when evicting pods/\"db-0\" -n \"queue\": admission webhook \"drain.example.com\" denied the request`" + `, which tries again after 429 alone; while it cannot be called, evictions pass (failurePolicy Ignore)`},
		"fails closed":        {"w1", fmt.Sprintf(hook, "CREATE", "'*/*'", "failurePolicy: Fail"), "evictions are refused (failurePolicy Fail)"},
		"another node":        {"w2", fmt.Sprintf(hook, "CREATE", "pods/eviction", "failurePolicy: Fail"), ""},
		"not their operation": {"w1", fmt.Sprintf(hook, "UPDATE", "pods/eviction", "failurePolicy: Fail"), ""},
		"the Pods themselves": {"w1", fmt.Sprintf(hook, "CREATE", "pods", "failurePolicy: Fail"), ""},
		"another namespace":   {"w1", fmt.Sprintf(hook, "CREATE", "pods/eviction", "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}"), ""},
		"labels of the Pod":   {"w1", fmt.Sprintf(hook, "CREATE", "pods/eviction", "objectSelector: {matchLabels: {app: db}}"), ""},
		"a policy":            {"w1", fmt.Sprintf(policy, "Deny"), "ValidatingAdmissionPolicy 'drain.example.com' … denied request"},
		"a policy that warns": {"w1", fmt.Sprintf(policy, "Warn"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := manifest.Read([]string{"-"}, manifest.Options{Stdin: strings.NewReader(fmt.Sprintf(pods, test.node) + test.object)})
			var got strings.Builder
			for _, a := range askedOfEvictions(Change{Nodes: []string{"w1"}}, evaluate(t, snapshot(o))) {
				got.WriteString(a.String())
			}
			if (got.Len() > 0) != (test.want != "") || !strings.Contains(got.String(), test.want) {
				t.Errorf("%q, want %q", &got, test.want)
			}
		})
	}
}
