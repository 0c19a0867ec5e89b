package impact

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// cell is one request that explain can be asked about.
type cell struct {
	resource  inventory.Resource
	operation admission.Operation
	namespace string
}

// someConfiguration makes a configuration of up to three webhooks with random rules,
// selectors and matchConditions.
func someConfiguration(r *rand.Rand) *admissionv1.MutatingWebhookConfiguration {
	c := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "random"}}
	for _, name := range []string{"a.example.com", "b.example.com", "a.example.com"} {
		if r.IntN(4) > 0 {
			c.Webhooks = append(c.Webhooks, someWebhook(r, name))
		}
	}
	return c
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func someWebhook(r *rand.Rand, name string) admissionv1.MutatingWebhook {
	requirement := func() metav1.LabelSelectorRequirement {
		return pick(
			r,
			metav1.LabelSelectorRequirement{Key: "kubernetes.io/metadata.name", Operator: pick(r, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn), Values: []string{pick(r, "one", "two", "absent")}},
			metav1.LabelSelectorRequirement{Key: "team", Operator: pick(r, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)},
			metav1.LabelSelectorRequirement{Key: "team", Operator: metav1.LabelSelectorOpIn, Values: []string{pick(r, "x", "y")}},
		)
	}
	selector := func() *metav1.LabelSelector {
		s := &metav1.LabelSelector{}
		for range r.IntN(3) {
			s.MatchExpressions = append(s.MatchExpressions, requirement())
		}
		return s
	}
	w := admissionv1.MutatingWebhook{
		Name:          name,
		ClientConfig:  admissionv1.WebhookClientConfig{URL: new("https://hooks.example.com/" + name)},
		FailurePolicy: new(pick(r, admissionv1.Fail, admissionv1.Ignore)),
		MatchPolicy:   new(pick(r, admissionv1.Exact, admissionv1.Equivalent)),
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{pick(r, admissionv1.Create, admissionv1.Update, admissionv1.Delete, admissionv1.Connect, admissionv1.OperationAll)},
			Rule: admissionv1.Rule{
				APIGroups: []string{pick(r, "", "apps", "autoscaling", "*")}, APIVersions: []string{pick(r, "v1", "v2", "*")},
				Resources: []string{pick(r, "pods", "namespaces", "nodes", "*", "*/*", "deployments", "horizontalpodautoscalers", "pods/*")},
				Scope:     new(pick(r, admissionv1.AllScopes, admissionv1.NamespacedScope, admissionv1.ClusterScope)),
			},
		}},
		NamespaceSelector: selector(),
	}
	if r.IntN(3) == 0 {
		w.ObjectSelector = selector()
	}
	if r.IntN(3) == 0 {
		w.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: pick(r,
			`request.namespace != "one"`, `request.name == "two"`, `request.operation == "CREATE"`, `object.spec.x == 1`, `request.namespace.startsWith("t")`, `request.kind.group == ""`, `false`)}}
	}
	return w
}

// someMatcher is of a cluster with a few namespaces, of which the input may hold some.
func someMatcher(r *rand.Rand, c *admissionv1.MutatingWebhookConfiguration, known bool) *admission.Matcher {
	o := inventory.Objects{Mutating: []*admissionv1.MutatingWebhookConfiguration{c}, NamespacesKnown: known}
	for _, name := range []string{"one", "two", "three"} {
		if labels := pick(r, map[string]string{}, map[string]string{"team": "x"}, map[string]string{"team": "y"}); known || r.IntN(2) == 0 {
			o.Namespaces = append(o.Namespaces, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
		}
	}
	return admission.New(snapshot(o))
}

// explained is what explain answers: yes or no where all versions of the resource
// agree, else maybe.
func explained(m *admission.Matcher, w *inventory.Webhook, c cell) admission.Match {
	if w == nil {
		return admission.No
	}
	var out admission.Match
	first, _ := slices.BinarySearchFunc(m.Snapshot.Served, c.resource, func(s inventory.Served, r inventory.Resource) int { return s.Resource.Compare(r) })
	for _, served := range m.Snapshot.Served[first:] {
		if served.Resource != c.resource {
			break
		}
		subject := admission.Subject{Namespace: c.namespace, Version: served.Version}
		if c.resource.Name == "namespaces" {
			subject = admission.Subject{Name: c.namespace, Version: served.Version}
			if labels, exists := m.Snapshot.NamespaceLabels(c.namespace); exists || m.Snapshot.NamespacesKnown {
				subject.Labels = labels
			}
		}
		if !served.Namespaced {
			subject.Namespace = ""
		}
		request, err := m.Request(c.operation, c.resource, subject)
		switch match := request.Match(w).Match; {
		case err != nil:
			return admission.No
		case out == "":
			out = match
		case out != match:
			out = admission.Maybe
		}
	}
	return out
}

// FuzzRegistrations compares gained and lost with what explain answers before and
// after, for every request to named namespaces.
func FuzzRegistrations(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		known, old, updated := r.IntN(2) == 0, someConfiguration(r), someConfiguration(r)
		for i, w := range updated.Webhooks { // few fields change at once
			if j := slices.IndexFunc(old.Webhooks, func(o admissionv1.MutatingWebhook) bool { return o.Name == w.Name }); j >= 0 && r.IntN(2) == 0 {
				pick(r, func() { w.Rules = old.Webhooks[j].Rules }, func() { w.NamespaceSelector, w.ObjectSelector = old.Webhooks[j].NamespaceSelector, nil })()
				updated.Webhooks[i] = w
			}
		}
		labels := r.Uint64()
		before := someMatcher(rand.New(rand.NewPCG(labels, 1)), old, known)
		after := someMatcher(rand.New(rand.NewPCG(labels, 1)), updated, known)
		reported := map[string]map[cell][2]admission.Match{}
		for _, change := range Registrations(before, after) {
			for i, w := range change.Webhooks {
				reported[fmt.Sprint(w.Name, w.Edit, i)] = cellsOf(t, w, before.Snapshot)
			}
		}
		for i, p := range pair(before.Snapshot.Webhooks, after.Snapshot.Webhooks) {
			differences := differences(before, after, p)
			found := map[cell][2]admission.Match{}
			for _, cells := range reported {
				if cmp.Equal(cells, differences) {
					found = cells
				}
			}
			if diff := cmp.Diff(differences, found, cmp.Comparer(func(a, b cell) bool { return a == b })); diff != "" {
				t.Fatalf("webhook %d, namespaces known %v: explain (-), gained and lost (+):\n%s\nbefore %+v\nafter %+v", i, known, diff, p.was, p.now)
			}
		}
	})
}

// differences are the answers of explain that differ.
func differences(before, after *admission.Matcher, p webhookPair) map[cell][2]admission.Match {
	out := map[cell][2]admission.Match{}
	seen := map[inventory.Resource]bool{}
	for _, served := range before.Snapshot.Served {
		if seen[served.Resource] {
			continue
		}
		seen[served.Resource] = true
		for _, op := range before.Operations(served.Resource) {
			for _, namespace := range []string{"one", "two", "three"} {
				c := cell{served.Resource, op, namespace}
				if !served.Namespaced && served.Name != "namespaces" {
					c.namespace = ""
				}
				_, has := before.Snapshot.Namespaces[namespace]
				if a := ([2]admission.Match{explained(before, p.was, c), explained(after, p.now, c)}); a[0] != a[1] && (has || c.namespace == "") {
					out[c] = a
				}
			}
		}
	}
	return out
}

// cellsOf are the requests that a change names, but those of namespaces that only a
// selector names, or none.
func cellsOf(t *testing.T, w WebhookChange, s *inventory.Snapshot) map[cell][2]admission.Match {
	t.Helper()
	out := map[cell][2]admission.Match{}
	for _, r := range slices.Concat(w.Gained, w.Lost) {
		names := r.Namespaces
		if names == nil {
			names = []string{""}
		}
		for _, resource := range r.Resources {
			for _, op := range resource.Operations {
				for _, name := range names {
					c := cell{resource.Resource, op, name}
					if _, twice := out[c]; twice {
						t.Errorf("%v is reported twice", c)
					}
					if _, has := s.Namespaces[name]; has || r.Namespaces == nil {
						out[c] = [2]admission.Match{r.Before, r.After}
					}
				}
			}
		}
	}
	return out
}

// edit changes the policy webhook of the cluster.
func edit(t *testing.T, change func(c *admissionv1.ValidatingWebhookConfiguration)) (changes []Registration, before, after *admission.Matcher) {
	t.Helper()
	was, now := objects(t, "testdata/cluster.yaml"), objects(t, "testdata/cluster.yaml")
	for _, c := range now.Validating {
		if c.Name == "policy" {
			change(c)
		}
	}
	before, after = admission.New(snapshot(was)), admission.New(snapshot(now))
	return Registrations(before, after), before, after
}

func TestRegistrations(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(c *admissionv1.ValidatingWebhookConfiguration)
		want   []string
	}{
		{"nothing that matters", func(c *admissionv1.ValidatingWebhookConfiguration) { c.Annotations = map[string]string{"a": "b"} }, nil},
		{"failurePolicy", func(c *admissionv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].FailurePolicy = new(admissionv1.Ignore)
		}, []string{
			"has failurePolicy Ignore, before Fail: while its backend cannot be called, requests pass without it instead of being refused",
		}},
		{"timeout", func(c *admissionv1.ValidatingWebhookConfiguration) { c.Webhooks[0].TimeoutSeconds = new(int32(8)) }, []string{
			"has timeoutSeconds 8, before 5: it can hold up each request 3 s longer",
		}},
		{"a wider selector", func(c *admissionv1.ValidatingWebhookConfiguration) { c.Webhooks[0].NamespaceSelector = nil }, []string{
			"is called now for CREATE/DELETE of pods in 1 namespace (kube-system)",
			"has namespaceSelector all, before kubernetes.io/metadata.name notin (kube-system)",
		}},
		{"a narrower selector", func(c *admissionv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}
		}, []string{
			"is called no longer for CREATE/DELETE of pods in 2 namespaces (inject, policy)",
			"has namespaceSelector team=shop, before kubernetes.io/metadata.name notin (kube-system)",
		}},
		{"a rule that says the same", func(c *admissionv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].Rules = append(c.Webhooks[0].Rules, c.Webhooks[0].Rules...)
		}, []string{
			"has rules CREATE, DELETE on pods of the core API group in v1; CREATE, DELETE on pods of the core API group in v1, before CREATE, DELETE on pods of the core API group in v1: it is called for the same requests",
		}},
		{"an objectSelector", func(c *admissionv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
		}, []string{
			"is called only perhaps now, and was always, for CREATE/DELETE of pods in 3 namespaces (inject, policy, shop)",
			"has objectSelector app=x, before all",
		}},
		{"the backend", func(c *admissionv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].ClientConfig = admissionv1.WebhookClientConfig{URL: new("https://hooks.example.com/v?token=secret")}
		}, []string{
			"has backend URL https://hooks.example.com/v, before Service policy/policy:443",
		}},
		{"deleted", func(c *admissionv1.ValidatingWebhookConfiguration) { c.Webhooks = nil }, []string{
			"is deleted",
			"is called no longer for CREATE/DELETE of pods in 3 namespaces (inject, policy, shop)",
			"had backend Service policy/policy:443", "had failurePolicy Fail", "had timeoutSeconds 5",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			changes, _, _ := edit(t, test.change)
			var got []string
			for _, r := range changes {
				for _, w := range r.Webhooks {
					got = append(got, w.Sentences()...)
				}
			}
			expect.Equal(t, test.want, got)
		})
	}
}

// TestRegistrationNamesWhoWroteIt: the newest write but that of a status.
func TestRegistrationNamesWhoWroteIt(t *testing.T) {
	changes, _, _ := edit(t, func(c *admissionv1.ValidatingWebhookConfiguration) {
		at := func(day int) *metav1.Time { return new(metav1.Date(2026, 1, day, 0, 0, 0, 0, time.UTC)) }
		c.ManagedFields = []metav1.ManagedFieldsEntry{
			{Manager: "kubectl-edit", Time: at(2)}, {Manager: "helm", Time: at(1)}, {Manager: "controller", Subresource: "status", Time: at(3)},
		}
		c.Webhooks[0].FailurePolicy = new(admissionv1.Ignore)
	})
	want := "validating webhook configuration policy is changed, last written by kubectl-edit at 2026-01-02T00:00:00Z: webhook pods.policy.example.com has failurePolicy Ignore, before Fail: while its backend cannot be called, requests pass without it instead of being refused"
	if got := changes[0].String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestBudgetChanges(t *testing.T) {
	changes, before, after := edit(t, func(c *admissionv1.ValidatingWebhookConfiguration) { c.Webhooks[0].TimeoutSeconds = new(int32(25)) })
	var got []string
	for _, b := range BudgetChanges(changes, before, after) {
		got = append(got, b.String())
	}
	if len(got) == 0 || !strings.Contains(strings.Join(got, "\n"), "the worst case of CREATE/DELETE of pods grows from 5 s to 25 s") {
		t.Errorf("budgets: %q", got)
	}
	if more := BudgetChanges(nil, before, after); len(more) > 0 {
		t.Errorf("without a change: %v", more)
	}
}

// TestOrderChanges: of three mutating webhooks the last becomes the first.
func TestOrderChanges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	was := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "order"}}
	for _, name := range []string{"a", "b", "c"} {
		was.Webhooks = append(was.Webhooks, someWebhook(r, name))
	}
	now := was.DeepCopy()
	now.Webhooks = []admissionv1.MutatingWebhook{was.Webhooks[2], was.Webhooks[0], was.Webhooks[1]}
	matcher := func(c *admissionv1.MutatingWebhookConfiguration) *admission.Matcher {
		return admission.New(snapshot(inventory.Objects{Mutating: []*admissionv1.MutatingWebhookConfiguration{c}}))
	}
	got := map[string][]string{}
	for _, w := range Registrations(matcher(was), matcher(now))[0].Webhooks {
		got[w.Name] = w.Sentences()
	}
	want := map[string][]string{
		"a": {"is called after c now, and was before"},
		"b": {"is called after c now, and was before"},
		"c": {"is called before a, b now, and was after"},
	}
	expect.Equal(t, want, got)
	now.Webhooks = was.Webhooks[1:]
	if changes := Registrations(matcher(was), matcher(now))[0].Webhooks; len(changes) != 1 || changes[0].Edit != Deleted {
		t.Errorf("without the first one: %+v", changes)
	}
}
