package inventory

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// DisruptionBudget is a PodDisruptionBudget: how many of the Pods that it selects
// evictions leave.
type DisruptionBudget struct {
	Key
	Owner    Owner
	Selector labels.Selector
	// At most one of them is set.
	MinAvailable, MaxUnavailable *intstr.IntOrString
}

// String says what the budget wants, as its manifest does: "minAvailable: 1".
func (b *DisruptionBudget) String() string {
	switch {
	case b.MaxUnavailable != nil:
		return "maxUnavailable: " + b.MaxUnavailable.String()
	case b.MinAvailable != nil:
		return "minAvailable: " + b.MinAvailable.String()
	}
	return "neither minAvailable nor maxUnavailable"
}

// Allowed counts the evictions that the budget allows at a time while so many Pods,
// all that it selects, are healthy. Source: getExpectedPodCount and updatePdbStatus in
// k8s.io/kubernetes/pkg/controller/disruption.
func (b *DisruptionBudget) Allowed(pods int) int {
	allowed := 0
	switch {
	case b.MaxUnavailable != nil:
		allowed = scaled(b.MaxUnavailable, pods)
	case b.MinAvailable != nil:
		allowed = pods - scaled(b.MinAvailable, pods)
	}
	return min(max(allowed, 0), pods)
}

// scaled returns the value, or its share of the Pods, rounded up. What is neither a
// number nor a percentage allows nothing, as in the API server's controller.
func scaled(value *intstr.IntOrString, pods int) int {
	n, _ := intstr.GetScaledValueFromIntOrPercent(value, pods, true) // 0 in case of an error
	return n
}

// Guard is what PodDisruptionBudgets say of the Pods of a workload.
type Guard struct {
	Budgets []*DisruptionBudget
	// Pods counts those that the first of the Budgets selects.
	Pods int
}

// Blocks reports whether no eviction of the Pods is ever allowed, however healthy
// they are. The API server evicts no Pod that two budgets select. Source: evictions in
// k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go.
func (g Guard) Blocks() bool {
	return len(g.Budgets) > 1 || len(g.Budgets) == 1 && g.Budgets[0].Allowed(g.Pods) == 0
}

// Guard returns what PodDisruptionBudgets say of the Pods of a workload of the
// Snapshot.
func (s *Snapshot) Guard(w *Workload) Guard { return s.place().guards()[w.id()] }

type workloadID struct {
	kind string
	Key
}

func (w *Workload) id() workloadID { return workloadID{w.Kind, w.Key} }

// findGuards finds what guards each workload. What a drain leaves alone is not
// guarded: static Pods and those of DaemonSets.
func (s *Snapshot) findGuards() map[workloadID]Guard {
	out := map[workloadID]Guard{}
	selects := s.place().newSelection()
	for i := range s.DisruptionBudgets {
		b := &s.DisruptionBudgets[i]
		selected := slices.DeleteFunc(selects.workloadsIn(b.Namespace, b.Selector),
			func(w *Workload) bool { return w.Daemon || w.Static })
		pods := podsOf(selected)
		for _, w := range selected {
			if w.Replicas == 0 {
				continue
			}
			g := out[w.id()]
			if len(g.Budgets) == 0 {
				g.Pods = pods
			}
			g.Budgets = append(g.Budgets, b)
			out[w.id()] = g
		}
	}
	return out
}

// podsOf counts the Pods of the workloads. Where the input has Pods beside what makes
// them, both are the same.
func podsOf(workloads []*Workload) int {
	pods, made := 0, 0
	for _, w := range workloads {
		if w.Kind == "Pod" {
			pods += w.Replicas
		} else {
			made += w.Replicas
		}
	}
	return max(pods, made)
}

func (o Objects) disruptionBudgets() []DisruptionBudget {
	var out []DisruptionBudget
	for _, b := range o.DisruptionBudgets {
		out = append(out, DisruptionBudget{
			Key:            Key{b.Namespace, b.Name},
			Owner:          OwnerOf(&b.ObjectMeta),
			Selector:       podSelector(b.Spec.Selector),
			MinAvailable:   b.Spec.MinAvailable,
			MaxUnavailable: b.Spec.MaxUnavailable,
		})
	}
	slices.SortFunc(out, func(a, b DisruptionBudget) int { return a.Key.Compare(b.Key) })
	return out
}

// podSelector parses the selector; nil and what cannot be parsed select nothing.
func podSelector(raw *metav1.LabelSelector) labels.Selector {
	parsed, err := metav1.LabelSelectorAsSelector(raw)
	if err != nil {
		return labels.Nothing()
	}
	return parsed
}
