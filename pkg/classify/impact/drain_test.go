package impact

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// guardedCluster has the Pods of two backends on the nodes, with a budget.
func guardedCluster(t *testing.T, maxUnavailable int32, nodes ...string) inventory.Objects {
	t.Helper()
	o := objects(t, "testdata/cluster.yaml")
	labels := map[string]string{"app": "policy"}
	for i, node := range nodes {
		o.Pods = append(o.Pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "policy", Name: fmt.Sprintf("policy-%d", i), Labels: labels,
				OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "policy", Controller: new(true)}},
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
		{1, "a", []string{"Pod policy/policy-0 2 of 3 "}},
		{0, "b", []string{"Pod policy/policy-0 1 of 3 PodDisruptionBudget policy/policy (maxUnavailable: 0) selects Pod policy/policy-0, 3 Pods in all, and lets none go"}},
	} {
		c := consequences(t, Change{Nodes: []string{tt.node}}, evaluate(t, snapshot(guardedCluster(t, tt.maxUnavailable, "a", "b", "a"))))
		var got []string
		for _, e := range c.Evicted {
			got = append(got, fmt.Sprintf("%s %d of %d %s", &e.Workload, e.Pods, e.Workload.Replicas, e.BlockedBy))
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

// TestCardOfDrains: the card says what drains make of the Pods.
func TestCardOfDrains(t *testing.T) {
	for _, tt := range []struct {
		maxUnavailable int32
		nodes          []string
		want           string
	}{
		{0, []string{"a", "b"}, "a drain of a node with its Pods does not end: PodDisruptionBudget policy/policy (maxUnavailable: 0)"},
		{2, []string{"a", "b"}, "drains may take away all 2 Pods of Pod policy/policy-0 at a time: PodDisruptionBudget policy/policy (maxUnavailable: 2) lets them go"},
		{1, []string{"a", "a"}, "all 2 Pods of Pod policy/policy-0 are on node a"},
		{1, []string{"a", "b"}, "all 2 ready endpoints of Service policy/policy are in zone z1"},
		{1, []string{"a", "b"}, "no container of Pod policy/policy-0 has a readinessProbe: a new Pod is called before it can answer"},
		{1, []string{"a", "b"}, "no container of Pod policy/policy-0 has a preStop hook"},
		{1, nil, "a rollout of Deployment policy/engine may take away all 2 Pods at once (strategy: Recreate)"},
	} {
		o := guardedCluster(t, tt.maxUnavailable, tt.nodes...)
		for _, slice := range o.EndpointSlices {
			for i := range slice.Endpoints {
				slice.Endpoints[i].Zone = new("z1")
			}
		}
		if len(tt.nodes) == 0 {
			o.Deployments = append(o.Deployments, &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: "engine"},
				Spec: appsv1.DeploymentSpec{
					Replicas: new(int32(2)),
					Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
					Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "policy"}}},
				},
			})
		}
		card := Cards(evaluate(t, snapshot(o)), "policy", "")[0]
		i := slices.IndexFunc(card.Sections, func(s Section) bool { return s.ID == "failure-modes" })
		if answers := card.Sections[i].Answers; !slices.ContainsFunc(answers, func(a string) bool { return strings.HasPrefix(a, tt.want) }) {
			t.Errorf("want %q in %q", tt.want, answers)
		}
	}
}
