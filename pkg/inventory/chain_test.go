package inventory

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pods is a rule on all of pods, and nothing else.
func pods() admissionv1.RuleWithOperations {
	return admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.OperationAll},
		Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
	}
}

func mutating(configuration string, change func(*admissionv1.MutatingWebhook)) *admissionv1.MutatingWebhookConfiguration {
	w := admissionv1.MutatingWebhook{Name: configuration + ".example.com", Rules: []admissionv1.RuleWithOperations{pods()}}
	change(&w)
	return &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configuration}, Webhooks: []admissionv1.MutatingWebhook{w}}
}

func validating(configuration string, change func(*admissionv1.ValidatingWebhook)) *admissionv1.ValidatingWebhookConfiguration {
	w := admissionv1.ValidatingWebhook{Name: configuration + ".example.com", Rules: []admissionv1.RuleWithOperations{pods()}}
	change(&w)
	return &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configuration}, Webhooks: []admissionv1.ValidatingWebhook{w}}
}

// chained is a cluster whose webhooks come in another order than they are
// called.
func chained() Objects {
	not := func(key, value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: []string{value}}}}
	}
	return Objects{
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
	r, err := s.Request("create", "pod", Subject{Namespace: "team-a", Labels: map[string]string{"app": "web"}})
	if err != nil {
		t.Fatal(err)
	}
	c := s.Chain(r)
	var steps, skipped []string
	for _, step := range c.Steps {
		steps = append(steps, fmt.Sprintf("%s %s %s", step.Webhook.Type, step.Webhook.Configuration, step.Called))
	}
	for _, step := range c.Skipped {
		skipped = append(skipped, fmt.Sprintf("%s %s", step.Webhook.Configuration, step.Why))
	}
	if diff := cmp.Diff([]string{"admit a-defaults yes", "admit b-sidecar yes", "validating a-quick yes", "validating g-who maybe", "validating z-slow yes"}, steps); diff != "" {
		t.Errorf("steps: -want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"b-deployments rules", "c-cluster scope", "d-elsewhere namespaceSelector", "e-other objectSelector", "f-condition matchConditions"}, skipped); diff != "" {
		t.Errorf("skipped: -want +got\n%s", diff)
	}
	// 3 + 5 one by one, 5 again, and the default of 10 of g-who at the end.
	want := Budget{Mutating: 8 * time.Second, Reinvocable: 5 * time.Second, Validating: 10 * time.Second, Webhooks: 5}
	if got := c.Budget(); got != want || got.Total() != 23*time.Second {
		t.Errorf("budget %+v, want %+v", got, want)
	}
}

// TestReinvocationOfOne: the API server's own plugins may change the object in
// answer to what a webhook did; what is deleted nobody changes.
func TestReinvocationOfOne(t *testing.T) {
	w := &Webhook{Ref: Ref{Type: Mutating}, Timeout: 5 * time.Second, Reinvocation: admissionv1.IfNeededReinvocationPolicy}
	for op, want := range map[Operation]time.Duration{Create: 10 * time.Second, Delete: 5 * time.Second} {
		if got := (Budget{}).Add(w, op).Total(); got != want {
			t.Errorf("%s: budget %s, want %s", op, got, want)
		}
	}
}

func TestRequest(t *testing.T) {
	o := chained()
	o.CRDs = []*apiextensionsv1.CustomResourceDefinition{widgets()}
	o.CRDs[0].Spec.Names.ShortNames = []string{"wd"}
	s := o.Snapshot(time.Time{})
	for _, test := range []struct {
		operation, resource string
		subject             Subject
		want, note          string
	}{
		{"create", "pods", Subject{}, "CREATE v1 pods in default", ""},
		{"CREATE", "pods", Subject{Namespace: "a"}, "CREATE v1 pods in a", ""},
		{"patch", "deploy", Subject{}, "UPDATE v1 deployments.apps in default", ""},
		{"update", "Deployment", Subject{}, "UPDATE v1 deployments.apps in default", ""},
		{"update", "deployments.apps/scale", Subject{}, "UPDATE v1 deployments.apps/scale in default", ""},
		{"delete", "hpa", Subject{}, "DELETE v2 horizontalpodautoscalers.autoscaling in default", ""},
		{"delete", "hpa", Subject{Version: "v1"}, "DELETE v1 horizontalpodautoscalers.autoscaling in default", ""},
		{"delete", "hpa", Subject{Version: "autoscaling/v1"}, "DELETE v1 horizontalpodautoscalers.autoscaling in default", ""},
		{"create", "pods/exec", Subject{}, "CONNECT v1 pods/exec in default", "admission sees every request to pods/exec as CONNECT"},
		{"get", "pods/exec", Subject{}, "CONNECT v1 pods/exec in default", "admission sees every request to pods/exec as CONNECT"},
		{"connect", "nodes/proxy", Subject{}, "CONNECT v1 nodes/proxy in ", ""},
		{"update", "nodes", Subject{Namespace: "a"}, "UPDATE v1 nodes in ", "nodes is cluster-scoped: namespace a is left out"},
		{"update", "ns", Subject{Name: "team-a"}, "UPDATE v1 namespaces in team-a", ""},
		{"create", "events", Subject{}, "CREATE v1 events in default", "events is taken to be events; there is also events.events.k8s.io"},
		{"create", "wd", Subject{}, "CREATE v1 widgets.example.com in default", ""},
		{"update", "widgets.example.com/status", Subject{}, "UPDATE v1 widgets.example.com/status in default", ""},
		{"create", "pods", Subject{Object: map[string]any{"metadata": map[string]any{"namespace": "b"}}}, "CREATE v1 pods in b", ""},
	} {
		r, err := s.Request(test.operation, test.resource, test.subject)
		if err != nil {
			t.Errorf("%s %s: %v", test.operation, test.resource, err)
			continue
		}
		if got := fmt.Sprintf("%s %s %s in %s", r.Operation, r.Version, r.Resource, r.Namespace); got != test.want {
			t.Errorf("%s %s: %s, want %s", test.operation, test.resource, got, test.want)
		}
		if got := strings.Join(r.Notes, "; "); got != test.note {
			t.Errorf("%s %s: note %q, want %q", test.operation, test.resource, got, test.note)
		}
	}
}

func TestRequestErrors(t *testing.T) {
	s := Objects{CRDs: []*apiextensionsv1.CustomResourceDefinition{widgets()}}.Snapshot(time.Time{})
	for _, test := range []struct {
		operation, resource, version string
		want                         string
	}{
		{"create", "podz", "", "did you mean pods"},
		{"create", "deployment.extensions", "", "did you mean deployments.apps"},
		{"create", "pods/exce", "", "did you mean pods/attach"},
		{"create", "quux", "", `reading resource "quux": the API server does not serve it`},
		{"get", "pods", "", "no webhook is ever called for reading"},
		{"make", "pods", "", "want create, update, patch, delete or connect"},
		{"connect", "pods", "", "it takes create, update, delete"},
		{"delete", "pods/status", "", "it takes update"},
		{"update", "tokenreviews", "", "it takes create"},
		{"create", "pods", "v2", "pods is served in v1"},
		{"create", "widgets", "v1alpha1", "widgets.example.com is served in v1, v1beta1"},
	} {
		_, err := s.Request(test.operation, test.resource, Subject{Version: test.version})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s %s: %v, want %q", test.operation, test.resource, test.version, err, test.want)
		}
	}
}

// TestConversionInTheChain: the storage converts what is not written in the
// stored version, or what a webhook asks for in another.
func TestConversionInTheChain(t *testing.T) {
	crd := widgets()
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook:  &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: new("https://example.com")}},
	}
	hook := validating("old", func(w *admissionv1.ValidatingWebhook) {
		w.Rules[0].APIGroups, w.Rules[0].APIVersions, w.Rules[0].Resources = []string{"example.com"}, []string{"v1beta1"}, []string{"widgets"}
	})
	for _, test := range []struct {
		name, operation, version string
		webhooks                 []*admissionv1.ValidatingWebhookConfiguration
		stored                   []string
		want                     Called
	}{
		{"in the stored version", "create", "v1", nil, nil, ""},
		{"in another version", "create", "v1beta1", nil, nil, Yes},
		{"a webhook asks for another version", "create", "v1", []*admissionv1.ValidatingWebhookConfiguration{hook}, nil, Yes},
		{"created while old objects are stored", "create", "v1", nil, []string{"v1beta1", "v1"}, ""},
		{"an old object may be updated", "update", "v1", nil, []string{"v1beta1", "v1"}, Maybe},
	} {
		crd.Status.StoredVersions = test.stored
		s := Objects{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd}, Validating: test.webhooks}.Snapshot(time.Time{})
		r, err := s.Request(test.operation, "widgets", Subject{Version: test.version})
		if err != nil {
			t.Fatal(err)
		}
		var got Called
		if step := s.Chain(r).Conversion; step != nil {
			got = step.Called
		}
		if got != test.want {
			t.Errorf("%s: conversion %q, want %q", test.name, got, test.want)
		}
	}
}

// TestConditionsOnAnObject: what the object decides is decided once it is given.
func TestConditionsOnAnObject(t *testing.T) {
	s := Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{validating("v", func(w *admissionv1.ValidatingWebhook) {
		w.MatchConditions = []admissionv1.MatchCondition{{Name: "privileged", Expression: `object.spec.containers.exists(c, c.?securityContext.privileged.orValue(false))`}}
	})}}.Snapshot(time.Time{})
	pod := func(privileged bool) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": "p"}, "spec": map[string]any{"containers": []any{map[string]any{"securityContext": map[string]any{"privileged": privileged}}}}}
	}
	for _, test := range []struct {
		object map[string]any
		want   Called
	}{{nil, Maybe}, {pod(true), Yes}, {pod(false), No}} {
		r, err := s.Request("create", "pods", Subject{Object: test.object})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Webhooks[0].Reaches(r); got.Called != test.want {
			t.Errorf("%v: %+v, want %s", test.object, got, test.want)
		}
	}
}

// TestBadConditions: no expression makes us crash or hang, and what cannot be
// told is not told.
func TestBadConditions(t *testing.T) {
	nested := strings.Repeat("[1,2,3,4,5,6,7,8,9].all(x, ", 40) + "true" + strings.Repeat(")", 40)
	for _, test := range []struct {
		name, expression string
		policy           admissionv1.FailurePolicyType
		want             Called
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
		s := Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{w}}.Snapshot(time.Time{})
		r, err := s.Request("create", "pods", Subject{})
		if err != nil {
			t.Fatal(err)
		}
		got := s.Webhooks[0].Reaches(r)
		if got.Called != test.want || got.Refused != test.refused {
			t.Errorf("%s: %+v, want %s, refused %v", test.name, got, test.want, test.refused)
		}
		if got.Called != Yes && got.Detail == "" {
			t.Errorf("%s: no detail", test.name)
		}
		s.Reach(&s.Webhooks[0])
	}
}

// TestBadSelectors: the API server accepts none such; what meets one in a file
// is told as refused, and nothing is excluded by it.
func TestBadSelectors(t *testing.T) {
	w := validating("v", func(w *admissionv1.ValidatingWebhook) {
		w.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like", Values: []string{"b"}}}}
	})
	s := Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{w}}.Snapshot(time.Time{})
	if len(s.Errors) != 1 {
		t.Errorf("errors %v, want one about the selector", s.Errors)
	}
	r, err := s.Request("create", "pods", Subject{})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Webhooks[0].Reaches(r); got.Called != Yes || !got.Refused {
		t.Errorf("%+v, want the request refused", got)
	}
	if len(s.Reach(&s.Webhooks[0])) == 0 {
		t.Error("the selector excludes everything")
	}
}

// TestSnapshotsMayBeAskedAtOnce: what is remembered is remembered for all.
func TestSnapshotsMayBeAskedAtOnce(t *testing.T) {
	s := crowd(50)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range s.Webhooks {
				s.Reach(&s.Webhooks[i])
				s.Intercepts(&s.Webhooks[i], Resource{Name: "pods"}, Create, "default")
			}
			if r, err := s.Request("create", "leases", Subject{}); err != nil || len(s.Chain(r).Steps) == 0 {
				t.Errorf("nothing is called: %v", err)
			}
		})
	}
	all.Wait()
}

// crowd is a cluster with many webhooks, of every sort that clusters have.
func crowd(n int) *Snapshot {
	o := Objects{CRDs: []*apiextensionsv1.CustomResourceDefinition{widgets()}}
	for i := range n {
		o.Validating = append(o.Validating, validating(fmt.Sprintf("v-%05d", i), func(w *admissionv1.ValidatingWebhook) {
			if i%3 > 0 {
				w.Rules[0].APIGroups, w.Rules[0].Resources = []string{"*"}, []string{"*/*"}
			}
			if i%4 == 0 {
				w.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system", fmt.Sprint("ns-", i)}}}}
			}
			if i%5 == 0 {
				w.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: `!(request.resource.group == "coordination.k8s.io" && request.resource.resource == "leases")`}}
			}
			if i%7 == 0 {
				w.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: `request.userInfo.username != "system:admin"`}}
			}
		}))
	}
	return o.Snapshot(time.Time{})
}

func BenchmarkChain5000(b *testing.B) {
	s := crowd(5000)
	for b.Loop() {
		r, err := s.Request("create", "pods", Subject{Namespace: "default"})
		if err != nil {
			b.Fatal(err)
		}
		if c := s.Chain(r); len(c.Steps)+len(c.Skipped) != 5000 {
			b.Fatal("webhooks are missing")
		}
	}
}

func BenchmarkReach5000(b *testing.B) {
	s := crowd(5000)
	for b.Loop() {
		for i := range s.Webhooks {
			s.Reach(&s.Webhooks[i])
		}
	}
}

func BenchmarkReachWith5000Rules(b *testing.B) {
	w := validating("v", func(w *admissionv1.ValidatingWebhook) {
		for range 4999 {
			w.Rules = append(w.Rules, pods())
		}
	})
	s := Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{w}}.Snapshot(time.Time{})
	for b.Loop() {
		s.Reach(&s.Webhooks[0])
	}
}
