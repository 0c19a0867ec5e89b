package classify

import (
	"fmt"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
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
// not known, one that may exist, which has one color alone.
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
		allNamespaces bool
		total         time.Duration
		webhooks      int
		namespace     string
	}{
		{true, 10 * time.Second, 2, "green"},
		{false, 10 * time.Second, 2, "green"},
	} {
		o.NamespacesKnown = test.allNamespaces
		got := costOf(t, evaluate(t, DefaultPolicy(), o.Snapshot(taken)), admission.Create)
		if got.Total() != test.total || got.Webhooks != test.webhooks || got.Namespace != test.namespace {
			t.Errorf("namespaces known %v: %s for %d webhooks in %q, want %s for %d in %q", test.allNamespaces, got.Total(), got.Webhooks, got.Namespace, test.total, test.webhooks, test.namespace)
		}
	}
	if got := costOf(t, evaluate(t, DefaultPolicy(), o.Snapshot(taken)), admission.Delete); got.Total() != 0 {
		t.Errorf("DELETE costs %s, want nothing", got.Total())
	}
}

// TestOutlastingChains: the webhooks that one object meets in one namespace count together,
// however their selectors are written, and whatever else is registered.
func TestOutlastingChains(t *testing.T) {
	type hook struct {
		name, color string
		seconds     int32
		selector    string
	}
	for name, test := range map[string]struct {
		hooks []hook
		files bool
		want  map[string]string // by webhook, the namespace of its chain and its seconds
	}{
		"one narrow":    {hooks: []hook{{"a", "", 20, "app=a"}, {"b", "", 20, ""}}, want: map[string]string{"a": " 40s", "b": " 40s"}},
		"beside Exists": {hooks: []hook{{"a", "", 20, "app=a"}, {"b", "", 20, "app"}}, want: map[string]string{"a": " 40s", "b": " 40s"}},
		"beside In":     {hooks: []hook{{"a", "", 20, "app=a"}, {"b", "", 20, "app in (a)"}}, want: map[string]string{"a": " 40s", "b": " 40s"}},
		"other keys":    {hooks: []hook{{"a", "", 20, "app=a"}, {"b", "", 20, "tier=a"}}, want: map[string]string{"a": " 40s", "b": " 40s"}},
		"beside NotIn":  {hooks: []hook{{"a", "", 20, "app in (a,b)"}, {"b", "", 20, "app notin (a)"}}, want: map[string]string{"a": " 40s", "b": " 40s"}},
		"exclusive":     {hooks: []hook{{"a", "", 20, "app=a"}, {"b", "", 20, "app notin (a)"}}, want: map[string]string{}},
		"absent":        {hooks: []hook{{"a", "", 20, "app=a"}, {"b", "", 20, "!app"}}, want: map[string]string{}},
		"two of three":  {hooks: []hook{{"a", "", 20, "app=a"}, {"b", "", 20, "app=b"}, {"c", "", 18, "app"}}, want: map[string]string{"a": " 38s", "b": " 38s", "c": " 38s"}},
		"negated": {
			hooks: []hook{{"a", "", 20, "app"}, {"b", "", 18, "app notin (a)"}, {"c", "", 12, "!app"}, {"d", "", 10, "app notin (b)"}},
			want:  map[string]string{"a": " 48s", "b": " 48s", "c": " 40s", "d": " 48s"},
		},
		"each with a slower one": {
			hooks: []hook{{"a", "", 30, "app=a"}, {"b", "", 30, "app=b"}, {"c", "", 30, "app=c"}, {"d", "", 18, "app in (a,d)"}, {"e", "", 18, "app in (b,d)"}, {"f", "", 18, "app in (c,d)"}},
			want:  map[string]string{"a": " 48s", "b": " 48s", "c": " 48s", "d": " 54s", "e": " 54s", "f": " 54s"},
		},
		"second calls":       {hooks: []hook{{"a", "blue", 20, ""}, {"b", "blue", 20, ""}, {"c", "green", 12, "again"}, {"d", "green", 12, "again"}}, want: map[string]string{"a": "blue 40s", "b": "blue 40s"}},
		"each namespace":     {hooks: []hook{{"a", "blue", 20, ""}, {"b", "blue", 20, ""}, {"c", "green", 18, ""}, {"d", "green", 18, ""}}, want: map[string]string{"a": "blue 40s", "b": "blue 40s", "c": "green 36s", "d": "green 36s"}},
		"beside a worse one": {hooks: []hook{{"a", "", 15, ""}, {"b", "blue", 30, ""}, {"c", "green", 20, ""}}, want: map[string]string{"a": "blue 45s", "b": "blue 45s", "c": "green 35s"}},
		"files":              {hooks: []hook{{"a", "red", 20, ""}, {"b", "red", 20, ""}, {"c", "pink", 20, ""}}, files: true, want: map[string]string{"a": " 40s", "b": " 40s"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := inventory.Objects{Namespaces: []*metav1.PartialObjectMetadata{
				{ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{"color": "blue"}}},
				{ObjectMeta: metav1.ObjectMeta{Name: "green", Labels: map[string]string{"color": "green"}}},
			}}
			o.NamespacesKnown = !test.files
			for _, h := range test.hooks {
				c := mutatesPods(h.name, h.seconds, h.color)
				c.Webhooks[0].FailurePolicy = new(admissionv1.Ignore)
				if h.selector != "again" {
					c.Webhooks[0].ReinvocationPolicy = nil
					c.Webhooks[0].ObjectSelector = must.Get(metav1.ParseToLabelSelector(h.selector))(t)
				}
				o.Mutating = append(o.Mutating, c)
			}
			got := map[string]string{}
			for _, p := range evaluate(t, DefaultPolicy(), o.Snapshot(taken)).Profiles {
				if p.Outlasting != nil {
					got[p.Configuration] = fmt.Sprintf("%s %s", p.Outlasting.Namespace, p.Outlasting.Total())
				}
			}
			expect.Equal(t, test.want, got)
		})
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
