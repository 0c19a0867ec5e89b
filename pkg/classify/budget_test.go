package classify

import (
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

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
		"in a namespace of less": {
			hooks: []hook{{"a", "color in (green,teal)", 20, "app=a"}, {"b", "color in (green,blue)", 20, "tier=a"}, {"c", "blue", 22, "app notin (a)"}, {"d", "teal", 22, "app notin (a)"}},
			want:  map[string]string{"a": "green 40s", "b": "blue 42s", "c": "blue 42s"},
		},
		"files": {hooks: []hook{{"a", "red", 20, ""}, {"b", "red", 20, ""}, {"c", "pink", 20, ""}}, files: true, want: map[string]string{"a": " 40s", "b": " 40s"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := inventory.Objects{Namespaces: []*metav1.PartialObjectMetadata{
				{ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{"color": "blue"}}},
				{ObjectMeta: metav1.ObjectMeta{Name: "green", Labels: map[string]string{"color": "green"}}},
				{ObjectMeta: metav1.ObjectMeta{Name: "teal", Labels: map[string]string{"color": "teal"}}},
			}}
			o.NamespacesKnown = !test.files
			for _, h := range test.hooks {
				c := mutatesPods(h.name, h.seconds, h.color)
				c.Webhooks[0].FailurePolicy = new(admissionv1.Ignore)
				if strings.Contains(h.color, " ") {
					c.Webhooks[0].NamespaceSelector = must.Get(metav1.ParseToLabelSelector(h.color))(t)
				}
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

// TestCostsAreTheDearest: what requests cost at worst is what asking in each namespace finds.
func TestCostsAreTheDearest(t *testing.T) {
	dearer := 0
	for seed := range uint64(200) {
		s := MixedSnapshot(seed)
		report := evaluate(t, DefaultPolicy(), s)
		for _, c := range report.Costs {
			if c.Namespace != "" && c.Total() > 0 {
				dearer++
			}
			if want := dearest(s, report.Profiles, c); c.Total() != want {
				t.Fatalf("seed %d: %s of %s costs %s in %q, want %s", seed, c.Operation, c.Resource, c.Total(), c.Namespace, want)
			}
		}
	}
	if dearer < 100 {
		t.Errorf("only %d costs were compared", dearer)
	}
}

// dearest is what the requests cost in the namespace where they cost most.
func dearest(s *inventory.Snapshot, profiles []*Profile, c Cost) time.Duration {
	names := []string{"default", "kube-system"}
	for name := range s.Namespaces {
		names = append(names, name)
	}
	var most time.Duration
	for _, name := range names {
		var b admission.Budget
		for i := range profiles {
			at, matched := find(profiles[i].Matched, c.Resource)
			if !matched || !profiles[i].Matched[at].Operations.Has(c.Operation) {
				continue
			}
			if namespaceLabels, _ := s.NamespaceLabels(name); !s.NamespacesKnown || profiles[i].NamespaceSelector.Parsed.Matches(labels.Set(namespaceLabels)) {
				b = b.Add(profiles[i].Webhook, c.Operation)
			}
		}
		most = max(most, b.Total())
	}
	return most
}
