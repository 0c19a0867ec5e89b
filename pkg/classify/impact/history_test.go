package impact

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// hooks is a cluster of n configurations with a webhook each, which edit changes.
func hooks(n int, edit func(i int, w *admissionv1.ValidatingWebhook)) inventory.Objects {
	o := inventory.Objects{Cluster: inventory.Cluster{NamespacesKnown: true}}
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
	edited := policyOf(now)
	edited.UID = "1234"
	edited.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl-edit", Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1", Time: new(metav1.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))}}
	edited.Webhooks[0].TimeoutSeconds, edited.Webhooks[0].FailurePolicy = new(int32(25)), new(admissionv1.Ignore)
	before, after := evaluate(t, snapshot(was)), evaluate(t, snapshot(now))
	var h History
	if got := h.Observe(nil, before); got != nil || !h.Since().Equal(before.Snapshot.Taken) {
		t.Errorf("the first Report: %v, since %s", got, h.Since())
	}
	got := h.Observe(before, after)
	want := differing(before.Matcher, after.Matcher)
	if len(got) != 1 || len(want) != 1 || got[0].String() != want[0].String() {
		t.Fatalf("got  %v\nwant %v", got, want)
	}
	c := got[0]
	if c.Number != 1 || c.UID != "1234" || c.Written.Manager != "kubectl-edit" || c.Object() != "validating webhook configuration policy" || c.Edit != Changed || !c.At.Equal(after.Snapshot.Taken) {
		t.Errorf("%+v", c)
	}
	expect.Contains(t, fmt.Sprint(c.Added), "long-timeout: webhook pods.policy.example.com")
	back := h.Observe(after, before)
	if len(back) != 1 || len(back[0].Resolved) == 0 || back[0].Number != 2 {
		t.Errorf("back: %+v", back)
	}
}

// TestPastFindings: findings alike are one, the worst come first, and all are counted.
func TestPastFindings(t *testing.T) {
	finding := func(check string, severity classify.Severity, name string) *classify.Finding {
		return &classify.Finding{
			Check: &classify.Check{Name: check}, Webhook: inventory.Ref{Type: inventory.Validating, Name: name},
			Problem: classify.Problem{Severity: severity, Message: "is late"},
		}
	}
	got := pastFindings([]*classify.Finding{
		finding("a", classify.Info, "one"), finding("b", classify.Warning, "one"), finding("c", classify.Critical, "one"),
		finding("c", classify.Critical, "two"), finding("d", classify.Info, "one"),
	}, func(*classify.Finding) bool { return true })
	want := []PastFinding{
		{classify.Critical, "critical: c: each of 2 webhooks (one, two) is late"},
		{classify.Warning, "warning: b: webhook one is late"},
		{classify.Info, "info: a: webhook one is late"},
		{0, "and 1 more"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
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
	unread := inventory.Error{Resources: "validatingwebhookconfigurations.admissionregistration.k8s.io", Message: "list is forbidden"}
	unreadable := report(inventory.Objects{Errors: []inventory.Error{unread}})
	for name, pair := range map[string][2]*classify.Report{
		"relisted": {second, relisted}, "annotated": {relisted, report(annotated)}, "readable at last": {unreadable, first},
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

// TestChangeIsBounded: of a change that is too much to say the first lines are kept.
func TestChangeIsBounded(t *testing.T) {
	var h History
	long := hooks(1, func(_ int, w *admissionv1.ValidatingWebhook) {
		w.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: "request.name != '" + strings.Repeat("é", 5000) + "'"}}
	})
	for _, c := range hooks(500, nil).Validating {
		long.Validating[0].Webhooks = append(long.Validating[0].Webhooks, c.Webhooks...)
	}
	got := h.Observe(evaluate(t, snapshot(hooks(1, nil))), evaluate(t, snapshot(long)))
	if text := got[0].String(); len(got) != 1 || len(text) > 3*maxLines*maxLine || !strings.Contains(text, "matchConditions") {
		t.Errorf("%d changes, the first of %d bytes: %s", len(got), len(text), text)
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
			t.Errorf("%s is a %s", path, v)
		}
	}
	leads(reflect.TypeFor[PastChange](), "PastChange")
}
