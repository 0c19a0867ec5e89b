package manifests

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// warner is the policy that warns, evaluated by the API server's own packages. That
// the API server accepts and calls it is shown by e2e/suites/guard.
type warner struct {
	compiled
	validations plugincel.ConditionEvaluator
	messages    plugincel.ConditionEvaluator
}

// validation is an expression that is true where nothing is to be warned of.
type validation admissionv1.Validation

func (v validation) GetExpression() string  { return v.Expression }
func (validation) ReturnTypes() []*cel.Type { return []*cel.Type{cel.BoolType} }

// message is the expression of a warning's text.
type message admissionv1.Validation

func (m message) GetExpression() string  { return m.MessageExpression }
func (message) ReturnTypes() []*cel.Type { return []*cel.Type{cel.StringType} }

func newWarner(t *testing.T, p classify.Policy) warner {
	t.Helper()
	text := must.Get(RegistrationWarnings(p))(t)
	var policy admissionv1.ValidatingAdmissionPolicy
	documents(t, text, &policy, &admissionv1.ValidatingAdmissionPolicyBinding{})
	out := warner{compiled: compile(t, policy.Spec.Variables, policy.Spec.MatchConditions)}
	var validations, messages []plugincel.ExpressionAccessor
	for _, v := range policy.Spec.Validations {
		if v.MessageExpression == "" {
			v.MessageExpression = strconv.Quote(v.Message)
		}
		validations, messages = append(validations, validation(v)), append(messages, message(v))
	}
	options := plugincel.OptionalVariableDeclarations{}
	out.validations = out.compiler.CompileCondition(validations, options, environment.NewExpressions)
	out.messages = out.compiler.CompileCondition(messages, options, environment.NewExpressions)
	return out
}

// warnings are what a client reads that creates the configuration, or replaces
// another one.
func (w warner) warnings(t *testing.T, object, old *admissionv1.ValidatingWebhookConfiguration) []string {
	t.Helper()
	attributes := w.request(t, object, old)
	ctx := w.compiler.CreateContext(t.Context()) // holds the variables
	if !w.matches(t, ctx, attributes) {
		return nil
	}
	evaluate := func(expressions plugincel.ConditionEvaluator) []plugincel.EvaluationResult {
		request := plugincel.CreateAdmissionRequest(attributes.Attributes, metav1.GroupVersionResource(validatingConfigurations), metav1.GroupVersionKind(attributes.VersionedKind))
		results, _, err := expressions.ForInput(ctx, attributes, request, plugincel.OptionalVariableBindings{}, nil, celconfig.RuntimeCELCostBudget)
		if err != nil {
			t.Fatal(err)
		}
		return results
	}
	var out []string
	messages := evaluate(w.messages)
	for i, result := range evaluate(w.validations) {
		switch {
		case result.Error != nil || messages[i].Error != nil:
			t.Fatal(result.Error, messages[i].Error)
		case result.EvalResult != types.True:
			out = append(out, messages[i].EvalResult.Value().(string))
		}
	}
	return out
}

// registered is a configuration of webhooks.
func registered(webhooks ...admissionv1.ValidatingWebhook) *admissionv1.ValidatingWebhookConfiguration {
	out := &admissionv1.ValidatingWebhookConfiguration{Webhooks: webhooks}
	out.Name = "policy"
	return out
}

// called is a webhook of a Service for CREATE of a resource of the core group, as
// the API server's defaults make it.
func called(name, namespace, resource string) admissionv1.ValidatingWebhook {
	return admissionv1.ValidatingWebhook{
		Name:         name,
		ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: namespace, Name: "policy"}},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}, Scope: new(admissionv1.AllScopes)},
		}},
	}
}

// narrowed changes the rule of a webhook.
func narrowed(w admissionv1.ValidatingWebhook, change func(*admissionv1.RuleWithOperations)) admissionv1.ValidatingWebhook {
	change(&w.Rules[0])
	return w
}

func crowd(resource string) []admissionv1.ValidatingWebhook {
	var out []admissionv1.ValidatingWebhook
	for i := range 11 {
		out = append(out, called(fmt.Sprintf("w%d.example.com", i), "policy", resource))
	}
	return out
}

func TestWarnings(t *testing.T) {
	policy := newWarner(t, classify.DefaultPolicy())
	secrets, configMaps := called("s.example.com", "policy", "secrets"), called("c.example.com", "openshift-policy", "configmaps")
	approved := func(value string, webhooks ...admissionv1.ValidatingWebhook) *admissionv1.ValidatingWebhookConfiguration {
		c := registered(webhooks...)
		c.Annotations = map[string]string{classify.ApprovalAnnotation: value}
		return c
	}
	renamed := registered(secrets)
	renamed.Name = "multus.openshift.io"
	for name, test := range map[string]struct {
		object *admissionv1.ValidatingWebhookConfiguration
		want   []string
	}{
		"no webhooks":          {registered(), nil},
		"another resource":     {registered(called("p.example.com", "policy", "pods")), nil},
		"sensitive":            {registered(secrets, called("p.example.com", "policy", "pods")), []string{"on security-sensitive resources: s.example.com; they"}},
		"any resource":         {registered(called("a.example.com", "policy", "*")), []string{"on security-sensitive resources: a.example.com; they"}},
		"any subresource":      {registered(called("a.example.com", "policy", "secrets/*")), []string{"on security-sensitive resources: a.example.com; they"}},
		"another group":        {registered(narrowed(called("a.example.com", "policy", "secrets"), func(r *admissionv1.RuleWithOperations) { r.APIGroups = []string{"apps"} })), nil},
		"a version not served": {registered(narrowed(called("a.example.com", "policy", "secrets"), func(r *admissionv1.RuleWithOperations) { r.APIVersions = []string{"v2"} })), nil},
		"an operation never sent": {registered(narrowed(called("a.example.com", "policy", "secrets"), func(r *admissionv1.RuleWithOperations) {
			r.Operations = []admissionv1.OperationType{admissionv1.Connect}
		})), nil},
		"another scope":            {registered(narrowed(called("a.example.com", "policy", "secrets"), func(r *admissionv1.RuleWithOperations) { r.Scope = new(admissionv1.ClusterScope) })), nil},
		"core":                     {registered(configMaps), []string{"on core resources: c.example.com; approve"}},
		"core, a third party":      {registered(called("c.example.com", "policy", "configmaps")), nil},
		"sensitive and core":       {registered(secrets, configMaps), []string{"resources: s.example.com; they", "resources: c.example.com; approve"}},
		"more than a message":      {registered(crowd("secrets")...), []string{"resources: 11 webhooks; they"}},
		"many others":              {registered(crowd("pods")...), nil},
		"approved":                 {approved("https://example.com/pull/1", secrets, configMaps), nil},
		"approved by a word":       {approved("yes", secrets), []string{"resources: s.example.com; they"}},
		"platform's webhook":       {registered(called("snapshot.storage.k8s.io", "policy", "secrets")), nil},
		"platform's configuration": {renamed, nil},
	} {
		t.Run(name, func(t *testing.T) {
			have := policy.warnings(t, test.object, nil)
			if len(have) != len(test.want) {
				t.Fatalf("warns %q, want %q", have, test.want)
			}
			for i := range have {
				if !strings.Contains(have[i], test.want[i]) {
					t.Errorf("warns %q, want %q", have[i], test.want[i])
				}
			}
		})
	}
}

// TestWarningOfOptIn: once, when a configuration opts in.
func TestWarningOfOptIn(t *testing.T) {
	policy := newWarner(t, classify.DefaultPolicy())
	plain := registered(called("p.example.com", "policy", "pods"))
	in, out := optedIn(plain, "true"), optedIn(plain, "false")
	for name, test := range map[string]struct {
		object, old *admissionv1.ValidatingWebhookConfiguration
		warns       bool
	}{
		"created":          {in, nil, true},
		"opts in later":    {in, plain, true},
		"says yes at last": {in, out, true},
		"has opted in":     {in, in, false},
		"opts out":         {out, in, false},
		"created without":  {out, nil, false},
	} {
		if have := policy.warnings(t, test.object, test.old); (len(have) == 1 && strings.Contains(have[0], "opts in to run level 0")) != test.warns || len(have) > 1 {
			t.Errorf("%s: warns %q, want that it opts in: %t", name, have, test.warns)
		}
	}
}
