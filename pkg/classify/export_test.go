package classify

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest/mixed"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Crowds are the names of the crowds, for tests of what imports this package.
func Crowds() []string {
	var out []string
	for _, c := range crowds {
		out = append(out, c.name)
	}
	return out
}

// CrowdSnapshot is that of n webhooks of the crowd.
func CrowdSnapshot(name string, n int) *inventory.Snapshot {
	return crowdCalled(name).of(n).Snapshot(taken)
}

// MixedSnapshot is the same for each seed.
func MixedSnapshot(seed uint64) *inventory.Snapshot {
	return mixed.Cluster(rand.New(rand.NewPCG(seed, 0))).Snapshot(taken)
}

// EndsAfter is a context that ends after it was asked some times.
func EndsAfter(ctx context.Context, times int) context.Context { return &endsAfter{ctx, times} }

// Sequence evaluates so many Snapshots with the edit, each with what none before had, and
// calls each with the Reports.
func Sequence(t *testing.T, edit string, all int, each func(n int, r *Report)) {
	t.Helper()
	e := evaluated{evaluator: NewEvaluator(DefaultPolicy())}
	e.all(t, edits[edit], all, each)
}

// LengthsIn adds up the lengths of all maps and slices that v leads to.
func LengthsIn(v any) map[string]int { return lengthsIn(v) }

// HeapInUse is what is in use of the heap once garbage is collected.
func HeapInUse() uint64 { return heapInUse() }

// CrowdEdited are the Snapshots of n webhooks of the crowd before and after each of its
// webhooks was edited, which differ in nothing else.
func CrowdEdited(name string, n int) (before, after *inventory.Snapshot) {
	var b inventory.Builder
	o := crowdCalled(name).of(n)
	before = b.Snapshot(o, taken)
	o.Validating, o.Mutating, o.CRDs = slices.Clone(o.Validating), slices.Clone(o.Mutating), slices.Clone(o.CRDs)
	for i, c := range o.Validating {
		o.Validating[i] = c.DeepCopy()
		for j := range c.Webhooks {
			w := &o.Validating[i].Webhooks[j]
			w.Rules[0].Operations, w.TimeoutSeconds = []admissionv1.OperationType{admissionv1.OperationAll}, new(int32(3))
		}
	}
	for i, c := range o.Mutating {
		o.Mutating[i] = c.DeepCopy()
		for j := range c.Webhooks {
			w := &o.Mutating[i].Webhooks[j]
			w.Rules[0].Operations, w.TimeoutSeconds = []admissionv1.OperationType{admissionv1.OperationAll}, new(int32(3))
		}
		slices.Reverse(o.Mutating[i].Webhooks)
	}
	for i, c := range o.CRDs {
		if o.CRDs[i] = c.DeepCopy(); c.Spec.Conversion != nil && c.Spec.Conversion.Webhook != nil {
			o.CRDs[i].Spec.Conversion.Webhook.ConversionReviewVersions = []string{"v1", "v1beta1"}
		}
	}
	return before, b.Snapshot(o, taken)
}
