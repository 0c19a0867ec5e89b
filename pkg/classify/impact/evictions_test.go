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
		"by a pattern":        {"w1", fmt.Sprintf(hook, "'*'", "pods/*", "failurePolicy: Fail"), "evictions are refused (failurePolicy Fail)"},
		"deletions of Pods":   {"w1", fmt.Sprintf(hook, "DELETE", "pods", "failurePolicy: Fail"), ""}, // the registry asks no admission again
		"their own kind":      {"w1", strings.Replace(fmt.Sprintf(hook, "CREATE", "evictions", "failurePolicy: Fail"), "apiGroups: ['']", "apiGroups: [policy]", 1), ""},
		"another group":       {"w1", strings.Replace(fmt.Sprintf(hook, "CREATE", "pods/eviction", "failurePolicy: Fail"), "apiGroups: ['']", "apiGroups: [policy]", 1), ""},
		"a mutating one":      {"w1", strings.Replace(fmt.Sprintf(hook, "CREATE", "pods/eviction", "failurePolicy: Fail"), "Validating", "Mutating", 1), "evictions are refused (failurePolicy Fail)"},
		"its name":            {"w1", fmt.Sprintf(hook, "CREATE", "pods/eviction", `matchConditions: [{name: named, expression: "request.name.startsWith('db')"}]`), "is asked about the eviction of queue/db-0"},
		"another name":        {"w1", fmt.Sprintf(hook, "CREATE", "pods/eviction", `matchConditions: [{name: named, expression: "request.name.startsWith('web')"}]`), ""},
		"some users":          {"w1", fmt.Sprintf(hook, "CREATE", "pods/eviction", `matchConditions: [{name: by, expression: "request.userInfo.username == 'admin'"}]`), "may be asked about the eviction of queue/db-0"},
		"the kind of a body":  {"w1", fmt.Sprintf(hook, "CREATE", "pods/eviction", `matchConditions: [{name: kind, expression: "request.kind.kind == 'Eviction'"}]`), "is asked about the eviction"},
		"the kind of a Pod":   {"w1", fmt.Sprintf(hook, "CREATE", "pods/eviction", `matchConditions: [{name: kind, expression: "request.kind.kind == 'Pod'"}]`), ""},
		"of a DaemonSet":      {"w1, tolerations: [], serviceAccountName: x", strings.Replace(fmt.Sprintf(hook, "CREATE", "pods/eviction", "failurePolicy: Fail"), "webhooks:", "webhooks:", 1) + "---\napiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: db, namespace: queue}\nspec: {selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, spec: {containers: [{name: b, image: b}]}}}\n", "is asked about the eviction of queue/db-0"},
		"a policy by name":    {"w1", strings.Replace(fmt.Sprintf(policy, "Deny"), "resources: [pods/eviction]", "resources: [pods/eviction], resourceNames: [db-0]", 1), "denied request"},
		"of another name":     {"w1", strings.Replace(fmt.Sprintf(policy, "Deny"), "resources: [pods/eviction]", "resources: [pods/eviction], resourceNames: [web-0]", 1), ""},
		"excluded":            {"w1", strings.Replace(fmt.Sprintf(policy, "Deny"), "resourceRules:", "excludeResourceRules: [{apiGroups: [''], apiVersions: ['*'], operations: ['*'], resources: ['*/eviction']}], resourceRules:", 1), ""},
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
