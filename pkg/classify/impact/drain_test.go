package impact

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

// guardedCluster has the Pods of two backends on the nodes, with a budget.
func guardedCluster(t *testing.T, maxUnavailable int32, nodes ...string) inventory.Objects {
	t.Helper()
	o := objects(t, "testdata/cluster.yaml")
	labels := map[string]string{"app": "policy", "pod-template-hash": "5d4f"}
	for i, node := range nodes {
		o.Pods = append(o.Pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "policy", Name: fmt.Sprintf("policy-%d", i), Labels: labels,
				OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "policy-5d4f", Controller: new(true)}},
			},
			Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{}}},
		})
	}
	o.DisruptionBudgets = append(o.DisruptionBudgets, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: "policy"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, MaxUnavailable: new(intstr.FromInt32(maxUnavailable))},
	})
	return o
}

// TestEvicted: a drain evicts what is on its node, and says what keeps it there.
func TestEvicted(t *testing.T) {
	for _, tt := range []struct {
		maxUnavailable int32
		node           string
		want           []string
	}{
		{1, "a", []string{"Deployment policy/policy 2 of 3 "}},
		{0, "b", []string{"Deployment policy/policy 1 of 3 PodDisruptionBudget policy/policy (maxUnavailable: 0) selects Deployment policy/policy, 3 Pods in all, and lets none go"}},
	} {
		c := consequences(t, Change{Nodes: []string{tt.node}}, evaluate(t, snapshot(guardedCluster(t, tt.maxUnavailable, "a", "b", "a"))))
		var got []string
		for _, e := range c.Evicted {
			got = append(got, fmt.Sprintf("%s %d of %d %s", e.Workload, e.Pods, e.OfPods, e.BlockedBy))
		}
		expect.Equal(t, tt.want, got)
		if risks := c.Evicted[0].Risks; len(risks) != 2 || !strings.Contains(risks[0], "readinessProbe") || !strings.Contains(risks[1], "preStop") {
			t.Errorf("risks %q", risks)
		}
	}
	if c := consequences(t, Change{Services: []inventory.Key{policy}}, evaluate(t, snapshot(guardedCluster(t, 0, "a")))); len(c.Evicted) > 0 {
		t.Errorf("without a drain %v are evicted", c.Evicted)
	}
}

// TestPreStop: where all Pods of a backend leave with their node and have a preStop hook,
// new ones may be ready in time; not so where the Service is down, nor without a hook.
func TestPreStop(t *testing.T) {
	for name, tt := range map[string]struct {
		change Change
		hook   *corev1.Lifecycle
		want   string
	}{
		"a hook":      {Change{Nodes: []string{"a"}}, &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{}}, "With node a drained: requests to 1 webhook are refused, requests to 1 webhook are refused once preStop hooks end, unless new Pods are ready by then."},
		"no hook":     {Change{Nodes: []string{"a"}}, nil, "With node a drained: requests to 2 webhooks are refused."},
		"the Service": {Change{Services: []inventory.Key{policy}}, &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{}}, "With Service policy/policy down: requests to 1 webhook are refused."},
	} {
		t.Run(name, func(t *testing.T) {
			o := guardedCluster(t, 1, "a")
			o.Pods[0].Spec.Containers[0].Lifecycle = tt.hook
			for _, slice := range o.EndpointSlices {
				slice.Endpoints = slices.DeleteFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return *e.NodeName == "b" && slice.Name == "policy-1" })
			}
			c := consequences(t, tt.change, evaluate(t, snapshot(o)))
			expect.Equal(t, tt.want, c.Verdict())
			racing := tt.hook != nil && len(tt.change.Nodes) > 0
			if len(c.Stuck) == 0 || slices.ContainsFunc(c.Stuck, func(b Blocked) bool { return b.PreStop != racing }) {
				t.Errorf("stuck %+v, want by preStop %t", c.Stuck, racing)
			}
		})
	}
}

// TestRestart: what comes back late has the command that brings it back at once, of what
// makes its Pods where that is known, and never of a whole namespace; so has the fix once
// it is down.
func TestRestart(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes []string
		want  []string
	}{
		"a Deployment": {[]string{"a"}, []string{"kubectl rollout restart deployment policy -n policy", "kubectl rollout status deployment policy -n policy"}},
		"not known":    {nil, []string{"kubectl rollout restart deployment DEPLOYMENT-BEHIND-policy -n policy", "kubectl rollout status deployment DEPLOYMENT-BEHIND-policy -n policy"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := guardedCluster(t, 1, tt.nodes...)
			c := consequences(t, Change{Services: []inventory.Key{policy}}, evaluate(t, snapshot(o)))
			expect.Equal(t, tt.want, c.Restart)
			o.EndpointSlices = slices.DeleteFunc(o.EndpointSlices, func(s *discoveryv1.EndpointSlice) bool { return s.Name == "policy-1" })
			findings := evaluate(t, snapshot(o)).Findings
			down := slices.IndexFunc(findings, func(f *classify.Finding) bool { return f.Check.Name == "no-ready-endpoints" })
			expect.Contains(t, findings[down].Fix, classify.Late, strings.Join(tt.want, " && "))
		})
	}
}

// TestGoneAlready: of a Service that does not exist, or has no endpoint, its loss changes
// nothing, which is reported.
func TestGoneAlready(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(o *inventory.Objects)
		want string
	}{
		"no Service": {func(o *inventory.Objects) {
			o.Services = slices.DeleteFunc(o.Services, func(s *corev1.Service) bool { return s.Name == "policy" })
		}, "Service policy/policy does not exist"},
		"no endpoint": {func(o *inventory.Objects) {
			o.EndpointSlices = slices.DeleteFunc(o.EndpointSlices, func(s *discoveryv1.EndpointSlice) bool { return s.Name == "policy-1" })
		}, "Service policy/policy has no endpoints"},
	} {
		t.Run(name, func(t *testing.T) {
			o := objects(t, "testdata/cluster.yaml")
			tt.edit(&o)
			c := consequences(t, Change{Services: []inventory.Key{policy}}, evaluate(t, snapshot(o)))
			expect.Equal(t, "With Service policy/policy down: requests to 1 webhook are refused already.", c.Verdict())
			if len(c.Effects) != 1 || !strings.Contains(c.Effects[0].String(), "that is so already: "+tt.want) {
				t.Errorf("effects: %+v", c.Effects)
			}
			if len(c.Appearing)+len(c.Disappearing) > 0 {
				t.Errorf("findings appear: %v, and go: %v", c.Appearing, c.Disappearing)
			}
		})
	}
}

// TestCardOfDrains: the card says what drains make of the Pods.
func TestCardOfDrains(t *testing.T) {
	for _, tt := range []struct {
		maxUnavailable int32
		nodes          []string
		want           string
	}{
		{0, []string{"a", "b"}, "a drain of a node with its Pods does not end: PodDisruptionBudget policy/policy (maxUnavailable: 0)"},
		{2, []string{"a", "b"}, "drains may take away all 2 Pods of Deployment policy/policy at a time: PodDisruptionBudget policy/policy (maxUnavailable: 2) lets them go"},
		{1, []string{"a", "a"}, "all 2 Pods of Deployment policy/policy are on node a"},
		{1, []string{"a", "b"}, "all 2 ready endpoints of Service policy/policy are in zone z1"},
		{1, []string{"a", "b"}, "no container of Deployment policy/policy has a readinessProbe: a new Pod is called before it can answer"},
		{1, []string{"a", "b"}, "no container of Deployment policy/policy has a preStop hook"},
	} {
		o := guardedCluster(t, tt.maxUnavailable, tt.nodes...)
		for _, slice := range o.EndpointSlices {
			for i := range slice.Endpoints {
				slice.Endpoints[i].Zone = new("z1")
			}
		}
		card := Cards(evaluate(t, snapshot(o)), "policy", "")[0]
		i := slices.IndexFunc(card.Sections, func(s Section) bool { return s.ID == "failure-modes" })
		if answers := card.Sections[i].Answers; !slices.ContainsFunc(answers, func(a string) bool { return strings.HasPrefix(a, tt.want) }) {
			t.Errorf("want %q in %q", tt.want, answers)
		}
	}
}

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
		"deletions of Pods":   {"w1", fmt.Sprintf(hook, "DELETE", "pods", "failurePolicy: Fail"), "is asked about the deletion of queue/db-0"}, // by the kubelet's request
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
