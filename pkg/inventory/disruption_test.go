package inventory

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

func TestAllowedEvictions(t *testing.T) {
	for _, row := range must.Rows(t, "testdata/evictions.tsv", 4) {
		b := DisruptionBudget{MinAvailable: value(row[0]), MaxUnavailable: value(row[1])}
		pods := must.Get(strconv.Atoi(row[2]))(t)
		if got := strconv.Itoa(b.Allowed(pods)); got != row[3] {
			t.Errorf("%s of %d Pods allows %s, want %s", &b, pods, got, row[3])
		}
	}
}

func value(text string) *intstr.IntOrString {
	if text == "" {
		return nil
	}
	return new(intstr.Parse(text))
}

func budget(name string, selector *metav1.LabelSelector) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selector, MinAvailable: value("1")},
	}
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: name}, Spec: appsv1.DeploymentSpec{Replicas: &replicas}}
	d.Spec.Template.Labels = map[string]string{"app": name}
	return d
}

// TestGuard: a budget guards what it selects in its namespace, all together.
func TestGuard(t *testing.T) {
	selects := func(values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: values}}}
	}
	for name, tt := range map[string]struct {
		selectors []*metav1.LabelSelector
		pods      int
		blocks    bool
	}{
		"its own":         {[]*metav1.LabelSelector{selects("a")}, 1, true},
		"two workloads":   {[]*metav1.LabelSelector{selects("a", "b")}, 2, false},
		"all":             {[]*metav1.LabelSelector{{}}, 2, false},
		"none":            {[]*metav1.LabelSelector{nil, selects("other")}, 0, false},
		"what is invalid": {[]*metav1.LabelSelector{{MatchLabels: map[string]string{"app": "no value"}}}, 0, false},
		"two budgets":     {[]*metav1.LabelSelector{{}, selects("a", "b")}, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := Objects{Deployments: []*appsv1.Deployment{deployment("a", 1), deployment("b", 1)}}
			elsewhere := deployment("a", 1)
			elsewhere.Namespace = "elsewhere"
			o.Deployments = append(o.Deployments, elsewhere)
			for i, selector := range tt.selectors {
				o.DisruptionBudgets = append(o.DisruptionBudgets, budget(fmt.Sprint(i), selector))
			}
			s := o.Snapshot(time.Time{})
			if g := s.Guard(&s.Workloads[0]); len(g.Budgets) != 0 {
				t.Errorf("%s is guarded by %v", &s.Workloads[0], g.Budgets)
			}
			if g := s.Guard(&s.Workloads[1]); g.Pods != tt.pods || g.Blocks() != tt.blocks {
				t.Errorf("%s: of %d Pods, blocked %t, want %d, %t", &s.Workloads[1], g.Pods, g.Blocks(), tt.pods, tt.blocks)
			}
		})
	}
}
