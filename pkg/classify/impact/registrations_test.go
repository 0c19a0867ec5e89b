package impact

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
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
func someMatcher(r *rand.Rand, c *admissionv1.MutatingWebhookConfiguration, hasNamespaces bool) *admission.Matcher {
	o := inventory.Objects{Cluster: inventory.Cluster{NamespacesKnown: hasNamespaces}, Mutating: []*admissionv1.MutatingWebhookConfiguration{c}}
	for _, name := range []string{"one", "two", "three"} {
		if labels := pick(r, map[string]string{}, map[string]string{"team": "x"}, map[string]string{"team": "y"}); hasNamespaces || r.IntN(2) == 0 {
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

// FuzzRegistrations holds the words of a change against what explain answers before and
// after, for every request to named namespaces: what is gained was never called, what is
// lost is never called, and what changes is gained, lost, or reported as not compared.
func FuzzRegistrations(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		hasNamespaces, old := r.IntN(2) == 0, someConfiguration(r)
		updated := old.DeepCopy()
		for i := range updated.Webhooks { // few fields change at once
			w, other := &updated.Webhooks[i], someWebhook(r, "other")
			w.Rules = append(w.Rules, w.Rules...) // which says the same
			pick(
				r,
				func() {}, func() { w.Rules = other.Rules }, func() { w.MatchConditions = other.MatchConditions },
				func() { w.NamespaceSelector = other.NamespaceSelector }, func() { w.ObjectSelector = other.ObjectSelector }, func() { w.MatchPolicy = other.MatchPolicy },
			)()
		}
		labels := r.Uint64()
		before := someMatcher(rand.New(rand.NewPCG(labels, 1)), old, hasNamespaces)
		after := someMatcher(rand.New(rand.NewPCG(labels, 1)), updated, hasNamespaces)
		for _, p := range pair(before.Snapshot.Webhooks, after.Snapshot.Webhooks) {
			w, _ := p.change(before, after)
			gained, lost := cellsOf(w.Gained), cellsOf(w.Lost)
			for _, c := range cells(before) {
				was, now := explained(before, p.was, c), explained(after, p.now, c)
				switch of := (cell{c.resource, c.operation, ""}); {
				case gained[of] && was != admission.No, lost[of] && now != admission.No:
					t.Fatalf("%v: %s before, %s now, gained %v, lost %v", c, was, now, w.Gained, w.Lost)
				case was != now && !gained[of] && !lost[of] && len(w.NotCompared) == 0:
					t.Fatalf("%v: %s before, %s now, and no word of it: %q", c, was, now, w.Sentences)
				}
			}
		}
	})
}

func cells(m *admission.Matcher) []cell {
	var out []cell
	for _, served := range m.Snapshot.Served {
		for _, operation := range m.Operations(served.Resource) {
			for _, namespace := range []string{"one", "two", "three"} {
				out = append(out, cell{served.Resource, operation, namespace})
			}
		}
	}
	return out
}

func cellsOf(list []ResourceOperations) map[cell]bool {
	out := map[cell]bool{}
	for _, r := range list {
		for _, operation := range r.Operations {
			out[cell{r.Resource, operation, ""}] = true
		}
	}
	return out
}

func edit(t *testing.T, change func(c *admissionv1.ValidatingWebhookConfiguration)) []Registration {
	t.Helper()
	was, now := objects(t, "testdata/cluster.yaml"), objects(t, "testdata/cluster.yaml")
	change(policyOf(now))
	return differing(admission.New(snapshot(was)), admission.New(snapshot(now)))
}

func differing(before, after *admission.Matcher) []Registration {
	out, _ := registrations(before, after)
	return out
}

// TestRegistrations: the words of a change, by the fields of the webhook that are written over.
func TestRegistrations(t *testing.T) {
	sentences := func(change func(c *admissionv1.ValidatingWebhookConfiguration)) []string {
		var out []string
		for _, r := range edit(t, change) {
			for _, w := range r.Webhooks {
				out = append(out, w.Sentences...)
			}
		}
		return out
	}
	for fields, want := range map[string][]string{
		`failurePolicy: Ignore`: {
			"failurePolicy Fail → Ignore: while its backend cannot be called, requests pass without it instead of being refused",
		},
		`timeoutSeconds: 8`: {"timeoutSeconds 5 → 8"},
		`namespaceSelector: null`: {
			"namespaceSelector kubernetes.io/metadata.name notin (kube-system) → all: it skips no request any more",
		},
		`namespaceSelector: {matchLabels: {team: shop}, matchExpressions: null}`: {
			"namespaceSelector kubernetes.io/metadata.name notin (kube-system) → team=shop: which requests come and go by that is not compared",
		},
		`rules: [{operations: [CREATE, UPDATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]`: {
			"called now for UPDATE of pods, where its selectors and matchConditions allow",
			"no longer called for DELETE of pods, where its selectors and matchConditions allow",
			"rules CREATE/DELETE pods in v1 → CREATE/UPDATE pods in v1",
		},
		`clientConfig: {service: null, url: "https://hooks.example.com/v?token=secret"}`: {
			"backend Service policy/policy:443 → URL https://hooks.example.com/v",
		},
	} {
		t.Run(fields, func(t *testing.T) {
			expect.Equal(t, want, sentences(func(c *admissionv1.ValidatingWebhookConfiguration) {
				must.Succeed(t, yaml.UnmarshalStrict([]byte(fields), &c.Webhooks[0]))
			}))
		})
	}
	expect.Equal(t, []string{"rules CREATE/DELETE pods in v1 → CREATE/DELETE pods in v1; CREATE carts.shop.example.com"}, sentences(func(c *admissionv1.ValidatingWebhookConfiguration) {
		c.Webhooks[0].Rules = append(c.Webhooks[0].Rules, kubetest.Rule("shop.example.com", "carts", admissionv1.Create)) // not served
	}))
	expect.Equal(t, []string{
		"deleted",
		"no longer called for CREATE/DELETE of pods, where its selectors and matchConditions allow",
		"backend was Service policy/policy:443", "failurePolicy was Fail", "timeoutSeconds was 5",
	}, sentences(func(c *admissionv1.ValidatingWebhookConfiguration) { c.Webhooks = nil }))
	expect.Equal(t, []string(nil), sentences(func(c *admissionv1.ValidatingWebhookConfiguration) { c.Annotations = map[string]string{"a": "b"} }))
}

// TestRegistrationNamesWhoWroteIt: the newest write but that of a status.
func TestRegistrationNamesWhoWroteIt(t *testing.T) {
	changes := edit(t, func(c *admissionv1.ValidatingWebhookConfiguration) {
		at := func(day int) *metav1.Time { return new(metav1.Date(2026, 1, day, 0, 0, 0, 0, time.UTC)) }
		c.ManagedFields = []metav1.ManagedFieldsEntry{
			{Manager: "kubectl-edit", Time: at(2)}, {Manager: "helm", Time: at(1)}, {Manager: "controller", Subresource: "status", Time: at(3)},
		}
		c.Webhooks[0].FailurePolicy = new(admissionv1.Ignore)
	})
	want := "validating webhook configuration policy is changed, last written by kubectl-edit at 2026-01-02T00:00:00Z. webhook pods.policy.example.com: failurePolicy Fail → Ignore: while its backend cannot be called, requests pass without it instead of being refused"
	expect.Equal(t, want, changes[0].String())
}

// TestNotCompared: two selectors, or two matchConditions, are not taken for the same
// where rules change only their order.
func TestNotCompared(t *testing.T) {
	for field, set := range map[string]func(w *admissionv1.ValidatingWebhook, value string){
		"objectSelector": func(w *admissionv1.ValidatingWebhook, value string) {
			w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": value}}
		},
		"matchConditions": func(w *admissionv1.ValidatingWebhook, value string) {
			w.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: "object.metadata.name == '" + value + "'"}}
		},
	} {
		configuration := func(value string, rules ...string) *admission.Matcher {
			o := objects(t, "testdata/cluster.yaml")
			w := &o.Validating[0].Webhooks[0]
			w.Rules = nil
			for _, r := range rules {
				w.Rules = append(w.Rules, kubetest.Rule("", r, admissionv1.Create))
			}
			set(w, value)
			return admission.New(snapshot(o))
		}
		change := differing(configuration("a", "pods", "secrets"), configuration("b", "secrets", "pods"))[0].Webhooks[0]
		expect.Equal(t, []string{field}, change.NotCompared)
		if words := strings.Join(change.Sentences, "\n"); !strings.Contains(words, "is not compared") {
			t.Errorf("%s: %s", field, words)
		}
	}
}

// TestSaidOnce: what changes alike of several webhooks is one line.
func TestSaidOnce(t *testing.T) {
	o := hooks(1, nil)
	for _, name := range []string{"b", "c", "d"} {
		w := o.Validating[0].Webhooks[0]
		w.Name = name
		o.Validating[0].Webhooks = append(o.Validating[0].Webhooks, w)
	}
	before := admission.New(snapshot(o))
	later := inventory.Objects{Cluster: inventory.Cluster{NamespacesKnown: true}, Validating: []*admissionv1.ValidatingWebhookConfiguration{o.Validating[0].DeepCopy()}}
	for i := range later.Validating[0].Webhooks {
		later.Validating[0].Webhooks[i].FailurePolicy = new(admissionv1.Ignore)
	}
	later.Validating[0].Webhooks[3].TimeoutSeconds = new(int32(6))
	want := []string{
		"4 webhooks (hook-0000.example.com, b, c, d): failurePolicy Fail → Ignore: while its backend cannot be called, requests pass without it instead of being refused",
		"webhook d: timeoutSeconds 5 → 6",
	}
	expect.Equal(t, want, differing(before, admission.New(snapshot(later)))[0].Lines())
}

func TestBudgetChanges(t *testing.T) {
	was, now := objects(t, "testdata/cluster.yaml"), objects(t, "testdata/cluster.yaml")
	policyOf(now).Webhooks[0].TimeoutSeconds = new(int32(25))
	before := evaluate(t, snapshot(was))
	var got []string
	for _, b := range budgetChanges(before, evaluate(t, snapshot(now))) {
		got = append(got, b.String())
	}
	expect.Equal(t, []string{"the worst case of CREATE/DELETE of pods grows from 5 s to 25 s"}, got)
	if more := budgetChanges(before, before); len(more) > 0 {
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
	expect.Equal(t, []string{"the webhooks are called in another order now: c, a, b"}, differing(matcher(was), matcher(now))[0].Lines())
	now.Webhooks = was.Webhooks[1:]
	change := differing(matcher(was), matcher(now))[0]
	if len(change.Webhooks) != 1 || change.Webhooks[0].Edit != Deleted || len(change.Order) > 0 {
		t.Errorf("without the first one: %+v", change)
	}
}
