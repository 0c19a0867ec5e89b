package classify

import (
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// mutatesPods mutates Pods in the namespaces of a color, for at most that long.
func mutatesPods(name string, seconds int32, color string) *admissionv1.MutatingWebhookConfiguration {
	w := admissionv1.MutatingWebhook{
		Name: name + ".example.com", TimeoutSeconds: &seconds, ReinvocationPolicy: new(admissionv1.IfNeededReinvocationPolicy),
		Rules: []admissionv1.RuleWithOperations{kubetest.Rule("", "pods", admissionv1.Create)},
	}
	if color != "" {
		w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"color": color}}
	}
	return kubetest.Mutating(name, w)
}

// TestCosts: the worst namespace that exists counts; where the namespaces are
// not known, one may exist in which all meet.
func TestCosts(t *testing.T) {
	o := inventory.Objects{
		Mutating: []*admissionv1.MutatingWebhookConfiguration{mutatesPods("all", 1, ""), mutatesPods("blue", 3, "blue"), mutatesPods("green", 4, "green")},
		Namespaces: []*metav1.PartialObjectMetadata{
			{ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{"color": "blue"}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "green", Labels: map[string]string{"color": "green"}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "green-2", Labels: map[string]string{"color": "green"}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "red", Labels: map[string]string{"color": "red"}}},
		},
	}
	for _, test := range []struct {
		known     bool
		total     time.Duration
		webhooks  int
		namespace string
	}{
		{true, 10 * time.Second, 2, "green"},
		{false, 16 * time.Second, 3, ""},
	} {
		o.NamespacesKnown = test.known
		got := costOf(t, evaluate(t, DefaultPolicy(), o.Snapshot(taken)), admission.Create)
		if got.Total() != test.total || got.Webhooks != test.webhooks || got.Namespace != test.namespace {
			t.Errorf("namespaces known %v: %s for %d webhooks in %q, want %s for %d in %q", test.known, got.Total(), got.Webhooks, got.Namespace, test.total, test.webhooks, test.namespace)
		}
	}
	if got := costOf(t, evaluate(t, DefaultPolicy(), o.Snapshot(taken)), admission.Delete); got.Total() != 0 {
		t.Errorf("DELETE costs %s, want nothing", got.Total())
	}
}

func costOf(t *testing.T, r *Report, op admission.Operation) Cost {
	t.Helper()
	for _, c := range r.Costs {
		if c.Resource == (inventory.Resource{Name: "pods"}) && c.Operation == op {
			return c
		}
	}
	t.Fatalf("no cost of %s pods", op)
	return Cost{}
}
