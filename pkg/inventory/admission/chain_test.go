package admission

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// pods is a rule on all of pods, and nothing else.
func pods() admissionv1.RuleWithOperations {
	rule := kubetest.Rule("", "pods")
	rule.APIVersions = []string{"v1"}
	return rule
}

func mutating(configuration string, change func(*admissionv1.MutatingWebhook)) *admissionv1.MutatingWebhookConfiguration {
	w := admissionv1.MutatingWebhook{Name: configuration + ".example.com", Rules: []admissionv1.RuleWithOperations{pods()}}
	change(&w)
	return kubetest.Mutating(configuration, w)
}

func validating(configuration string, change func(*admissionv1.ValidatingWebhook)) *admissionv1.ValidatingWebhookConfiguration {
	w := admissionv1.ValidatingWebhook{Name: configuration + ".example.com", Rules: []admissionv1.RuleWithOperations{pods()}}
	change(&w)
	return kubetest.Validating(configuration, w)
}

// chained is a cluster whose webhooks come in another order than they are
// called.
func chained() inventory.Objects {
	not := func(key, value string) *metav1.LabelSelector {
		return kubetest.Selector(key, metav1.LabelSelectorOpNotIn, value)
	}
	return inventory.Objects{
		Validating: []*admissionv1.ValidatingWebhookConfiguration{
			validating("z-slow", func(w *admissionv1.ValidatingWebhook) { w.TimeoutSeconds = new(int32(7)) }),
			validating("a-quick", func(w *admissionv1.ValidatingWebhook) { w.TimeoutSeconds = new(int32(1)) }),
			validating("b-deployments", func(w *admissionv1.ValidatingWebhook) {
				w.Rules[0].APIGroups, w.Rules[0].Resources = []string{"apps"}, []string{"deployments"}
			}),
			validating("c-cluster", func(w *admissionv1.ValidatingWebhook) { w.Rules[0].Scope = new(admissionv1.ClusterScope) }),
			validating("d-elsewhere", func(w *admissionv1.ValidatingWebhook) { w.NamespaceSelector = not(corev1.LabelMetadataName, "team-a") }),
			validating("e-other", func(w *admissionv1.ValidatingWebhook) { w.ObjectSelector = not("app", "web") }),
			validating("f-condition", func(w *admissionv1.ValidatingWebhook) {
				w.MatchConditions = []admissionv1.MatchCondition{{Name: "no-teams", Expression: `!request.namespace.startsWith("team-")`}}
			}),
			validating("g-who", func(w *admissionv1.ValidatingWebhook) {
				w.MatchConditions = []admissionv1.MatchCondition{{Name: "not-admin", Expression: `request.userInfo.username != "admin"`}}
			}),
		},
		Mutating: []*admissionv1.MutatingWebhookConfiguration{
			mutating("b-sidecar", func(w *admissionv1.MutatingWebhook) {
				w.TimeoutSeconds, w.ReinvocationPolicy = new(int32(5)), new(admissionv1.IfNeededReinvocationPolicy)
			}),
			mutating("a-defaults", func(w *admissionv1.MutatingWebhook) { w.TimeoutSeconds = new(int32(3)) }),
		},
	}
}

func TestChain(t *testing.T) {
	s := chained().Snapshot(time.Time{})
	r := must.Get(New(s).Request(Create, inventory.Resource{Name: "pods"}, Subject{Namespace: "team-a", Labels: map[string]string{"app": "web"}}))(t)
	c := New(s).Chain(r)
	var steps, skipped []string
	for _, step := range c.Steps {
		steps = append(steps, fmt.Sprintf("%s %s %s", step.Webhook.Type, step.Webhook.Configuration, step.Match))
	}
	for _, step := range c.Skipped {
		skipped = append(skipped, fmt.Sprintf("%s %s", step.Webhook.Configuration, step.Reason))
	}
	expect.Equal(t, []string{"admit a-defaults yes", "admit b-sidecar yes", "validating a-quick yes", "validating g-who maybe", "validating z-slow yes"}, steps)
	expect.Equal(t, []string{"b-deployments rules", "c-cluster scope", "d-elsewhere namespaceSelector", "e-other objectSelector", "f-condition matchConditions"}, skipped)
	// 3 + 5 one by one, 5 again, and the default of 10 of g-who at the end.
	want := Budget{Mutating: 8 * time.Second, Reinvocable: 5 * time.Second, Validating: 10 * time.Second, Webhooks: 5}
	if got := c.Budget(); got != want || got.Total() != 23*time.Second {
		t.Errorf("budget %+v, want %+v", got, want)
	}
}

// TestReinvocationOfOne: the API server's own plugins may change the object in
// answer to what a webhook did; an object being deleted is not changed.
func TestReinvocationOfOne(t *testing.T) {
	w := &inventory.Webhook{Registration: inventory.Registration{Ref: inventory.Ref{Type: inventory.Mutating}, Reinvocation: admissionv1.IfNeededReinvocationPolicy}, Timeout: 5 * time.Second}
	for op, want := range map[Operation]time.Duration{Create: 10 * time.Second, Delete: 5 * time.Second} {
		if got := (Budget{}).Add(w, op).Total(); got != want {
			t.Errorf("%s: budget %s, want %s", op, got, want)
		}
	}
}

func TestRequest(t *testing.T) {
	o := chained()
	o.CRDs = []*apiextensionsv1.CustomResourceDefinition{widgets()}
	m := New(o.Snapshot(time.Time{}))
	for _, test := range []struct {
		op         Operation
		resource   string
		subject    Subject
		want, note string
	}{
		{Create, "pods", Subject{}, "CREATE v1 pods in default", ""},
		{Create, "pods", Subject{Namespace: "a"}, "CREATE v1 pods in a", ""},
		{Update, "deployments.apps/scale", Subject{}, "UPDATE v1 deployments.apps/scale in default", ""},
		{Delete, "horizontalpodautoscalers.autoscaling", Subject{}, "DELETE v2 horizontalpodautoscalers.autoscaling in default", ""},
		{Delete, "horizontalpodautoscalers.autoscaling", Subject{Version: "v1"}, "DELETE v1 horizontalpodautoscalers.autoscaling in default", ""},
		{Delete, "horizontalpodautoscalers.autoscaling", Subject{Version: "autoscaling/v1"}, "DELETE v1 horizontalpodautoscalers.autoscaling in default", ""},
		{Connect, "nodes/proxy", Subject{}, "CONNECT v1 nodes/proxy in ", ""},
		{Update, "nodes", Subject{Namespace: "a"}, "UPDATE v1 nodes in ", "nodes is cluster-scoped: namespace a is left out"},
		{Update, "namespaces", Subject{Name: "team-a"}, "UPDATE v1 namespaces in team-a", ""},
		{Update, "widgets.example.com/status", Subject{}, "UPDATE v1 widgets.example.com/status in default", ""},
		{Create, "pods", Subject{Object: map[string]any{"metadata": map[string]any{"namespace": "b"}}}, "CREATE v1 pods in b", ""},
	} {
		r, err := m.Request(test.op, resource(t, test.resource), test.subject)
		if err != nil {
			t.Errorf("%s %s: %v", test.op, test.resource, err)
			continue
		}
		if got := fmt.Sprintf("%s %s %s in %s", r.Operation, r.Version, r.Resource, r.Namespace); got != test.want {
			t.Errorf("%s %s: %s, want %s", test.op, test.resource, got, test.want)
		}
		if got := strings.Join(r.Notes, "; "); got != test.note {
			t.Errorf("%s %s: note %q, want %q", test.op, test.resource, got, test.note)
		}
	}
}

func resource(t *testing.T, written string) inventory.Resource {
	t.Helper()
	var r inventory.Resource
	must.Succeed(t, r.UnmarshalText([]byte(written)))
	return r
}

// TestRequestErrors: a request that the API server would not serve is an error,
// never a request that no webhook is called for.
func TestRequestErrors(t *testing.T) {
	m := New(inventory.Objects{CRDs: []*apiextensionsv1.CustomResourceDefinition{widgets()}}.Snapshot(time.Time{}))
	for _, test := range []struct {
		op                      Operation
		resource, version, want string
	}{
		{Create, "podz", "", `reading resource "podz": the API server does not serve it`},
		{Create, "pods/exce", "", `reading resource "pods/exce": the API server does not serve it`},
		{Connect, "pods", "", "it takes create, update, delete"},
		{Delete, "pods/status", "", "it takes update"},
		{Update, "tokenreviews.authentication.k8s.io", "", "it takes create"},
		{"CREAT", "pods", "", "it takes create"},
		{Create, "pods", "v2", "pods is served in v1"},
		{Create, "widgets.example.com", "v1alpha1", "widgets.example.com is served in v1, v1beta1"},
	} {
		_, err := m.Request(test.op, resource(t, test.resource), Subject{Version: test.version})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s %s: %v, want %q", test.op, test.resource, test.version, err, test.want)
		}
	}
}

func TestConversionInTheChain(t *testing.T) {
	crd := widgets()
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook:  &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: new("https://example.com")}},
	}
	hook := validating("old", func(w *admissionv1.ValidatingWebhook) {
		w.Rules[0].APIGroups, w.Rules[0].APIVersions, w.Rules[0].Resources = []string{"example.com"}, []string{"v1beta1"}, []string{"widgets"}
	})
	perhaps := hook.DeepCopy()
	perhaps.Webhooks[0].NamespaceSelector = kubetest.Selector("team", metav1.LabelSelectorOpNotIn, "a")
	for _, test := range []struct {
		name     string
		op       Operation
		version  string
		webhooks []*admissionv1.ValidatingWebhookConfiguration
		stored   []string
		want     Match
	}{
		{"in the stored version", Create, "v1", nil, nil, ""},
		{"in another version", Create, "v1beta1", nil, nil, Yes},
		{"a webhook asks for another version", Create, "v1", []*admissionv1.ValidatingWebhookConfiguration{hook}, nil, Yes},
		{"a webhook may ask for another version", Create, "v1", []*admissionv1.ValidatingWebhookConfiguration{perhaps}, nil, Maybe},
		{"created while old objects are stored", Create, "v1", nil, []string{"v1beta1", "v1"}, ""},
		{"an old object may be updated", Update, "v1", nil, []string{"v1beta1", "v1"}, Maybe},
	} {
		crd.Status.StoredVersions = test.stored
		s := inventory.Objects{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd}, Validating: test.webhooks}.Snapshot(time.Time{})
		r := must.Get(New(s).Request(test.op, inventory.Resource{Group: "example.com", Name: "widgets"}, Subject{Version: test.version}))(t)
		var got Match
		if step := New(s).Chain(r).Conversion; step != nil {
			got = step.Match
		}
		if got != test.want {
			t.Errorf("%s: conversion %q, want %q", test.name, got, test.want)
		}
	}
}

// TestBadConditions: no expression makes the matcher crash or hang, and what is
// unknown is not reported.
func TestBadConditions(t *testing.T) {
	nested := strings.Repeat("[1,2,3,4,5,6,7,8,9].all(x, ", 40) + "true" + strings.Repeat(")", 40)
	for _, test := range []struct {
		name, expression string
		policy           admissionv1.FailurePolicyType
		want             Match
		refused          bool
	}{
		{"does not parse", `request.`, admissionv1.Fail, Maybe, false},
		{"unknown function", `request.name.reverse2()`, admissionv1.Fail, Maybe, false},
		{"unknown field", `request.user == "x"`, admissionv1.Ignore, Maybe, false},
		{"no bool", `"true"`, admissionv1.Fail, Maybe, false},
		{"not UTF-8", "request.namespace == \"\xff\"", admissionv1.Fail, No, false},
		{"empty", ``, admissionv1.Fail, Maybe, false},
		{"too long", `"` + strings.Repeat("x", 200_000) + `" == ""`, admissionv1.Fail, Maybe, false},
		{"too deep", strings.Repeat("(", 10_000) + "true" + strings.Repeat(")", 10_000), admissionv1.Fail, Maybe, false},
		{"runs long", nested, admissionv1.Fail, Maybe, false},
		{"fails", `1 / 0 == 1`, admissionv1.Fail, Yes, true},
		{"fails open", `1 / 0 == 1`, admissionv1.Ignore, No, false},
		{"missing field", `request.subResource == ""`, admissionv1.Fail, Yes, true},
	} {
		w := validating("v", func(w *admissionv1.ValidatingWebhook) {
			w.FailurePolicy = &test.policy
			w.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: test.expression}}
		})
		s := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{w}}.Snapshot(time.Time{})
		r := must.Get(New(s).Request(Create, inventory.Resource{Name: "pods"}, Subject{}))(t)
		got := r.Match(s.Webhooks[0])
		if got.Match != test.want || got.Refused != test.refused {
			t.Errorf("%s: %+v, want %s, refused %v", test.name, got, test.want, test.refused)
		}
		if got.Match != Yes && got.Detail == "" {
			t.Errorf("%s: no detail", test.name)
		}
		New(s).MatchedResources(s.Webhooks[0])
	}
}

// TestBadSelectors: the API server accepts none such; what meets one in a file
// is reported as refused, and nothing is excluded by it.
func TestBadSelectors(t *testing.T) {
	w := validating("v", func(w *admissionv1.ValidatingWebhook) {
		w.ClientConfig.URL = new("https://hooks.example.com/")
		w.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like", Values: []string{"b"}}}}
	})
	s := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{w}}.Snapshot(time.Time{})
	if len(s.Errors) != 1 {
		t.Errorf("errors %v, want one about the selector", s.Errors)
	}
	r := must.Get(New(s).Request(Create, inventory.Resource{Name: "pods"}, Subject{}))(t)
	if got := r.Match(s.Webhooks[0]); got.Match != Yes || !got.Refused {
		t.Errorf("%+v, want the request refused", got)
	}
	if len(New(s).MatchedResources(s.Webhooks[0])) == 0 {
		t.Error("the selector excludes everything")
	}
}

// TestExcludedBy: all is named for which the namespaceSelector skips a webhook, where a label is in
// its way: without that label, it is still skipped for the rest.
func TestExcludedBy(t *testing.T) {
	revision := []metav1.LabelSelectorRequirement{
		{Key: "istio-injection", Operator: metav1.LabelSelectorOpDoesNotExist},
		{Key: "istio.io/rev", Operator: metav1.LabelSelectorOpIn, Values: []string{"1-9-4"}},
	}
	for labels, want := range map[string]string{
		"istio-injection=enabled":                    "namespace shop has the label istio-injection=enabled and lacks istio.io/rev in (1-9-4)",
		"istio-injection=enabled,istio.io/rev=1-9-4": "namespace shop has the label istio-injection=enabled",
		"istio-injection=enabled,istio.io/rev=1-8":   "namespace shop has the label istio-injection=enabled and has the label istio.io/rev=1-8",
		"istio.io/rev=1-8":                           "namespace shop has the label istio.io/rev=1-8",
		"":                                           "",
	} {
		w := validating("v", func(w *admissionv1.ValidatingWebhook) {
			w.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: revision}
		})
		namespace := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: must.Get(apilabels.ConvertSelectorToLabelsMap(labels))(t)}}
		m := New(inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{w}, Namespaces: []*metav1.PartialObjectMetadata{namespace}}.Snapshot(time.Time{}))
		skipped := m.Chain(must.Get(m.Request(Create, inventory.Resource{Name: "pods"}, Subject{Namespace: "shop"}))(t)).Skipped
		if len(skipped) != 1 || skipped[0].Detail != want {
			t.Errorf("%s: %+v, want %q", labels, skipped, want)
		}
	}
}

// TestConcurrentUse: what is remembered is remembered for all.
func TestConcurrentUse(t *testing.T) {
	o := chained()
	s := New(o.Snapshot(time.Time{}))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range s.Snapshot.Webhooks {
				s.MatchedResources(s.Snapshot.Webhooks[i])
				s.Intercepts(s.Snapshot.Webhooks[i], inventory.Resource{Name: "pods"}, Create, "default")
			}
			if r, err := s.Request(Create, inventory.Resource{Name: "pods"}, Subject{}); err != nil || len(s.Chain(r).Steps) == 0 {
				t.Errorf("nothing is called: %v", err)
			}
		})
	}
	all.Wait()
}

// TestStatic: what API servers read from disk comes first, and is asked about the kinds
// that nothing which is registered through the API is asked about; not about reviews.
func TestStatic(t *testing.T) {
	rule := kubetest.Rule("admissionregistration.k8s.io", "*", admissionv1.Create)
	rule.APIGroups = append(rule.APIGroups, "authentication.k8s.io")
	o := inventory.Objects{}
	for _, name := range []string{"a-guard", "z-guard.static.k8s.io"} {
		o.Validating = append(o.Validating, kubetest.Validating(name, admissionv1.ValidatingWebhook{Name: name, Rules: []admissionv1.RuleWithOperations{rule}}))
		o.ValidatingPolicies = append(o.ValidatingPolicies, kubetest.Policy(name, rule))
		o.ValidatingPolicyBindings = append(o.ValidatingPolicyBindings, kubetest.Binding(name))
	}
	m := New(o.Snapshot(time.Time{}))
	if first := m.Snapshot.Webhooks[0]; !first.Static() {
		t.Errorf("the first webhook is %s", first.Configuration)
	}
	for resource, want := range map[inventory.Resource][]string{
		{Group: "admissionregistration.k8s.io", Name: "validatingwebhookconfigurations"}:   {"webhook z-guard.static.k8s.io", "policy z-guard.static.k8s.io", "policy a-guard"},
		{Group: "admissionregistration.k8s.io", Name: "validatingadmissionpolicybindings"}: {"webhook z-guard.static.k8s.io", "policy z-guard.static.k8s.io"},
		{Group: "authentication.k8s.io", Name: "tokenreviews"}:                             nil,
	} {
		r := must.Get(m.Request(Create, resource, Subject{}))(t)
		var got []string
		c := m.Chain(r)
		for _, step := range c.Steps {
			got = append(got, "webhook "+step.Webhook.Configuration)
		}
		for _, step := range c.Policies {
			got = append(got, "policy "+step.Policy.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s meets %q, want %q", resource.Name, got, want)
		}
	}
	reached := m.MatchedResources(m.Snapshot.Webhooks[0])
	if api := m.MatchedResources(m.Snapshot.Webhooks[1]); len(reached) != len(api)+len(exemptKinds) {
		t.Errorf("the static webhook reaches %d resources, the other one %d", len(reached), len(api))
	}
}
