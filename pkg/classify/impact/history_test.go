package impact

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// hooks is a cluster of n configurations with a webhook each, which edit changes.
func hooks(n int, edit func(i int, w *admissionv1.ValidatingWebhook)) inventory.Objects {
	o := inventory.Objects{NamespacesKnown: true}
	for i := range n {
		w := admissionv1.ValidatingWebhook{
			Name:           fmt.Sprintf("hook-%04d.example.com", i),
			ClientConfig:   admissionv1.WebhookClientConfig{URL: new("https://hooks.example.com/")},
			Rules:          []admissionv1.RuleWithOperations{kubetest.Rule("batch", "jobs", admissionv1.Create)},
			TimeoutSeconds: new(int32(5)),
		}
		if edit != nil {
			edit(i, &w)
		}
		o.Validating = append(o.Validating, kubetest.Validating(fmt.Sprintf("policy-%04d", i), w))
	}
	return o
}

// TestHistory: the sentences are those of diff, with who wrote it and what came and went
// of findings; the first Report is no change.
func TestHistory(t *testing.T) {
	was, now := objects(t, "testdata/cluster.yaml"), objects(t, "testdata/cluster.yaml")
	for _, c := range now.Validating {
		if c.Name == "policy" {
			c.UID = "1234"
			c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl-edit", Time: new(metav1.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))}}
			c.Webhooks[0].TimeoutSeconds, c.Webhooks[0].FailurePolicy = new(int32(25)), new(admissionv1.Ignore)
		}
	}
	before, after := evaluate(t, snapshot(was)), evaluate(t, snapshot(now))
	var h History
	if got := h.Observe(nil, before); got != nil || !h.Since().Equal(before.Snapshot.Taken) {
		t.Errorf("the first Report: %v, since %s", got, h.Since())
	}
	got := h.Observe(before, after)
	want := Registrations(before.Matcher, after.Matcher)
	if len(got) != 1 || len(want) != 1 || got[0].String() != want[0].String() {
		t.Fatalf("got  %v\nwant %v", got, want)
	}
	c := got[0]
	if diff := cmp.Diff(want[0].Webhooks[0].Sentences, c.Webhooks[0].Sentences); diff != "" {
		t.Errorf("sentences (-diff +history):\n%s", diff)
	}
	if c.Number != 1 || c.UID != "1234" || c.Written.Manager != "kubectl-edit" || c.Object() != "validating webhook configuration policy" || c.Edit != Changed || !c.At.Equal(after.Snapshot.Taken) {
		t.Errorf("%+v", c)
	}
	var added []string
	for _, f := range c.Added.Findings {
		added = append(added, f.Check.Name+" of "+f.Webhook.Name)
	}
	if !strings.Contains(strings.Join(added, "\n"), "long-timeout of pods.policy.example.com") {
		t.Errorf("findings added: %v", added)
	}
	back := h.Observe(after, before)
	if len(back) != 1 || len(back[0].Resolved.Findings) == 0 || back[0].Number != 2 {
		t.Errorf("back: %+v", back)
	}
}

// TestFailingSince: a webhook fails since it was first seen to, and no more once it does not.
func TestFailingSince(t *testing.T) {
	var h History
	var b inventory.Builder
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ref := inventory.Ref{Type: inventory.Validating, Configuration: "policy", Name: "policy.example.com"}
	missing := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{
		kubetest.Validating("policy", kubetest.Webhook(ref.Name, kubetest.Client("policy", "policy"), kubetest.Rule("", "configmaps"))),
	}}
	missing.ServicesKnown.All = true
	unknown := missing
	unknown.ServicesKnown.All = false
	var before *classify.Report
	for i, step := range []struct {
		objects inventory.Objects
		since   time.Time
	}{
		{unknown, time.Time{}},
		{missing, begin.Add(time.Minute)},
		{missing, begin.Add(time.Minute)},
		{unknown, time.Time{}},
		{missing, begin.Add(4 * time.Minute)},
	} {
		now := evaluate(t, b.Snapshot(step.objects, begin.Add(time.Duration(i)*time.Minute)))
		h.Observe(before, now)
		before = now
		if got := h.FailingSince(ref); !got.Equal(step.since) {
			t.Errorf("step %d: it fails since %s, want %s", i, got, step.since)
		}
	}
}

// TestHistoryOfNothing: what is no change of a registration is none, and costs nothing
// where registrations are shared.
func TestHistoryOfNothing(t *testing.T) {
	var h History
	var b inventory.Builder
	o := hooks(50, nil)
	report := func(o inventory.Objects) *classify.Report {
		return evaluate(t, b.Snapshot(o, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
	}
	first := report(o)
	o.Namespaces = append(o.Namespaces, kubetest.Namespace("new", nil))
	second := report(o)
	if n := testing.AllocsPerRun(100, func() { h.Observe(first, second) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	relisted := report(hooks(50, nil))
	annotated := hooks(50, nil)
	annotated.Validating[0].Annotations = map[string]string{"a": "b"}
	unreadable := *report(inventory.Objects{})
	s := *unreadable.Snapshot
	s.Errors = []inventory.Error{{Object: "validatingwebhookconfigurations.admissionregistration.k8s.io", Message: "list is forbidden"}}
	unreadable.Snapshot = &s
	for name, pair := range map[string][2]*classify.Report{
		"relisted": {second, relisted}, "annotated": {relisted, report(annotated)}, "readable at last": {&unreadable, first},
	} {
		if got := h.Observe(pair[0], pair[1]); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	if len(h.After(0)) > 0 {
		t.Errorf("recorded: %v", h.After(0))
	}
}

// TestHistoryIsBounded: of a thousand edits the last are kept.
func TestHistoryIsBounded(t *testing.T) {
	var h History
	before := evaluate(t, snapshot(hooks(1, nil)))
	for n := range 1000 {
		after := evaluate(t, snapshot(hooks(1, func(_ int, w *admissionv1.ValidatingWebhook) { w.TimeoutSeconds = new(int32(6 + n%2)) })))
		h.Observe(before, after)
		before = after
	}
	kept := h.After(0)
	if len(kept) != maxKept || cap(h.changes) > 2*maxKept || kept[0].Number != 1000-maxKept+1 || h.Last() != 1000 {
		t.Errorf("%d are kept of %d, from %d, in %d", len(kept), h.Last(), kept[0].Number, cap(h.changes))
	}
	if got := h.After(998); len(got) != 2 || got[0].Number != 999 {
		t.Errorf("after 998: %+v", got)
	}
	if got := h.After(2000); len(got) > 0 {
		t.Errorf("after 2000: %+v", got)
	}
}

// TestManyAtOnce: what is too much to say is counted; the text of a change is bounded.
func TestManyAtOnce(t *testing.T) {
	slower := func(_ int, w *admissionv1.ValidatingWebhook) { w.TimeoutSeconds = new(int32(20)) }
	before, after := evaluate(t, snapshot(hooks(500, nil))), evaluate(t, snapshot(hooks(500, slower)))
	var h History
	got := h.Observe(before, after)
	if last := got[len(got)-1]; len(got) != maxAtOnce+1 || last.Others != 500-maxAtOnce || last.String() != "480 more registrations changed at once" {
		t.Errorf("%d changes, the last %v", len(got), last)
	}
	long := func(_ int, w *admissionv1.ValidatingWebhook) {
		for i := range 40 {
			w.MatchConditions = append(w.MatchConditions, admissionv1.MatchCondition{Name: fmt.Sprint("c", i), Expression: "request.name != '" + strings.Repeat("é", 1000) + "'"})
		}
	}
	for name, edit := range map[string]func(o inventory.Objects){
		"long expressions": func(o inventory.Objects) { long(0, &o.Validating[0].Webhooks[0]) },
		"many webhooks": func(o inventory.Objects) {
			for _, c := range hooks(500, nil).Validating {
				o.Validating[0].Webhooks = append(o.Validating[0].Webhooks, c.Webhooks...)
			}
		},
	} {
		o := hooks(1, nil)
		edit(o)
		got := h.Observe(evaluate(t, snapshot(hooks(1, nil))), evaluate(t, snapshot(o)))
		if text := got[0].String(); len(got) != 1 || len(text) > 2*maxSentences || len(text) < maxSentence {
			t.Errorf("%s: %d changes, the first of %d bytes", name, len(got), len(text))
		}
	}
}

// TestHistoryHoldsText: nothing that is kept leads to a Snapshot.
func TestHistoryHoldsText(t *testing.T) {
	var leads func(v reflect.Type, path string)
	leads = func(v reflect.Type, path string) {
		switch v.Kind() {
		case reflect.Slice:
			leads(v.Elem(), path)
		case reflect.Struct:
			for field := range v.Fields() {
				if v != reflect.TypeFor[time.Time]() {
					leads(field.Type, path+"."+field.Name)
				}
			}
		case reflect.Pointer, reflect.Map, reflect.Interface, reflect.Func, reflect.Chan:
			if v != reflect.TypeFor[*classify.Check]() { // of which there is one each
				t.Errorf("%s is a %s", path, v)
			}
		}
	}
	leads(reflect.TypeFor[PastChange](), "PastChange")
}
