package manifests

import (
	"context"
	"strconv"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// variable is a variable of a policy, of any type.
type variable admissionv1.Variable

func (v variable) GetName() string          { return v.Name }
func (v variable) GetExpression() string    { return v.Expression }
func (v variable) ReturnTypes() []*cel.Type { return []*cel.Type{cel.AnyType, cel.DynType} }

// compiled is what both kinds of policies have.
type compiled struct {
	compiler *plugincel.CompositedCompiler
	matcher  matchconditions.Matcher
	objects  admission.ObjectInterfaces
}

// strict makes an error of a policy fail the test.
var strict = admissionv1.Fail

func compile(t *testing.T, variables []admissionv1.Variable, matching []admissionv1.MatchCondition) compiled {
	t.Helper()
	compiler := must.Get(plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())))(t)
	options := plugincel.OptionalVariableDeclarations{}
	for _, v := range variables {
		compiler.CompileAndStoreVariable(variable(v), options, environment.NewExpressions)
	}
	var conditions []plugincel.ExpressionAccessor
	for i := range matching {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&matching[i]))
	}
	scheme := runtime.NewScheme()
	must.Succeed(t, admissionv1.AddToScheme(scheme))
	return compiled{
		compiler: compiler,
		matcher:  matchconditions.NewMatcher(compiler.CompileCondition(conditions, options, environment.NewExpressions), &strict, "policy", "validate", "policy"),
		objects:  admission.NewObjectInterfacesFromScheme(scheme),
	}
}

var validatingConfigurations = admissionv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations")

// request is what a policy is given when a client creates the configuration, or
// replaces another one.
func (c compiled) request(t *testing.T, object, old *admissionv1.ValidatingWebhookConfiguration) *admission.VersionedAttributes {
	t.Helper()
	kind := admissionv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration")
	object = object.DeepCopy()
	object.SetGroupVersionKind(kind)
	var before runtime.Object
	operation := admission.Create
	if old != nil {
		before, operation = old, admission.Update
	}
	record := admission.NewAttributesRecord(object, before, kind, "", object.Name, validatingConfigurations, "", operation, nil, false, nil)
	return must.Get(admission.NewVersionedAttributes(record, kind, c.objects))(t)
}

func (c compiled) matches(t *testing.T, ctx context.Context, attributes *admission.VersionedAttributes) bool {
	t.Helper()
	result := c.matcher.Match(ctx, attributes, nil, nil)
	if result.Error != nil {
		t.Fatal(result.Error)
	}
	return result.Matches
}

// guardEvaluator is the guard, evaluated by the API server's own packages. That the
// API server accepts and calls it is shown by e2e/suites/guard.
type guardEvaluator struct {
	compiled
	patchers []patch.Patcher
}

func newGuard(t *testing.T, p classify.Policy) guardEvaluator {
	t.Helper()
	text := must.Get(RunLevelGuard(p))(t)
	var guard admissionv1.MutatingAdmissionPolicy
	documents(t, text, &guard, &admissionv1.MutatingAdmissionPolicyBinding{})
	out := guardEvaluator{compiled: compile(t, guard.Spec.Variables, guard.Spec.MatchConditions)}
	options := plugincel.OptionalVariableDeclarations{HasPatchTypes: true}
	for _, m := range guard.Spec.Mutations {
		compiled := out.compiler.CompileMutatingEvaluator(&patch.JSONPatchCondition{Expression: m.JSONPatch.Expression}, options, environment.NewExpressions)
		out.patchers = append(out.patchers, patch.NewJSONPatcher(compiled))
	}
	return out
}

// write returns the configuration as the guard leaves it when a client creates it,
// or replaces another one.
func (e guardEvaluator) write(t *testing.T, object, old *admissionv1.ValidatingWebhookConfiguration) *admissionv1.ValidatingWebhookConfiguration {
	t.Helper()
	attributes := e.request(t, object, old)
	ctx := e.compiler.CreateContext(t.Context()) // holds the variables
	if !e.matches(t, ctx, attributes) {
		return object.DeepCopy()
	}
	for _, patcher := range e.patchers {
		patched := must.Get(patcher.Patch(ctx, patch.Request{MatchedResource: validatingConfigurations, VersionedAttributes: attributes, ObjectInterfaces: e.objects}, celconfig.RuntimeCELCostBudget))(t)
		attributes.UpdateObject(patched)
	}
	return attributes.GetObject().(*admissionv1.ValidatingWebhookConfiguration)
}

// configured is a configuration with one webhook for each selector, as the API
// server's defaults make it.
func configured(name string, selectors ...metav1.LabelSelector) *admissionv1.ValidatingWebhookConfiguration {
	out := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for i := range selectors {
		out.Webhooks = append(out.Webhooks, admissionv1.ValidatingWebhook{Name: "w" + strconv.Itoa(i) + ".example.com", NamespaceSelector: &selectors[i]})
	}
	return out
}

func optedIn(c *admissionv1.ValidatingWebhookConfiguration, value string) *admissionv1.ValidatingWebhookConfiguration {
	c = c.DeepCopy()
	c.Annotations = map[string]string{classify.OptInAnnotation: value}
	return c
}

// requires compares the matchExpressions of all webhooks.
func requires(t *testing.T, c *admissionv1.ValidatingWebhookConfiguration, want ...metav1.LabelSelectorRequirement) {
	t.Helper()
	for _, w := range c.Webhooks {
		have := append([]metav1.LabelSelectorRequirement{}, w.NamespaceSelector.MatchExpressions...)
		if diff := cmp.Diff(append([]metav1.LabelSelectorRequirement{}, want...), have); diff != "" {
			t.Errorf("%s of %s: -want +have:\n%s", w.Name, c.Name, diff)
		}
	}
}

var (
	excluded = metav1.LabelSelectorRequirement{Key: "openshift.io/run-level", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"0"}}
	byName   = metav1.LabelSelectorRequirement{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"default", "kube-system"}}
	other    = metav1.LabelSelectorRequirement{Key: "team", Operator: metav1.LabelSelectorOpExists}
)

func TestGuardShapes(t *testing.T) {
	guard := newGuard(t, classify.DefaultPolicy())
	wider := metav1.LabelSelectorRequirement{Key: excluded.Key, Operator: excluded.Operator, Values: []string{"1", "0"}}
	narrower := metav1.LabelSelectorRequirement{Key: excluded.Key, Operator: excluded.Operator, Values: []string{"1"}}
	labels := map[string]string{"team": "a"}
	type all = []metav1.LabelSelectorRequirement
	for name, test := range map[string]struct {
		selector metav1.LabelSelector
		want     all
	}{
		"empty":              {metav1.LabelSelector{}, all{excluded}},
		"labels":             {metav1.LabelSelector{MatchLabels: labels}, all{excluded}},
		"expressions":        {metav1.LabelSelector{MatchExpressions: all{other}}, all{other, excluded}},
		"both":               {metav1.LabelSelector{MatchLabels: labels, MatchExpressions: all{other}}, all{other, excluded}},
		"excluded already":   {metav1.LabelSelector{MatchExpressions: all{excluded, other}}, all{excluded, other}},
		"excludes more":      {metav1.LabelSelector{MatchExpressions: all{wider}}, all{wider}},
		"excludes level one": {metav1.LabelSelector{MatchExpressions: all{narrower}}, all{narrower, excluded}},
	} {
		t.Run(name, func(t *testing.T) {
			made := guard.write(t, configured("policy", test.selector, test.selector, test.selector), nil)
			requires(t, made, test.want...)
			requires(t, guard.write(t, made, made), test.want...)
			expect.Equal(t, test.selector.MatchLabels, made.Webhooks[2].NamespaceSelector.MatchLabels) // before and after
		})
	}
	if made := guard.write(t, configured("policy"), nil); len(made.Webhooks) != 0 {
		t.Errorf("a configuration without webhooks has %d", len(made.Webhooks))
	}
}

// TestGuardLeavesThePlatformAlone: by the name of the configuration, or of the
// webhook alone.
func TestGuardLeavesThePlatformAlone(t *testing.T) {
	guard := newGuard(t, classify.DefaultPolicy())
	requires(t, guard.write(t, configured("multus.openshift.io", metav1.LabelSelector{}), nil))
	mixed := configured("policy", metav1.LabelSelector{}, metav1.LabelSelector{})
	mixed.Webhooks[0].Name = "snapshot.storage.k8s.io"
	made := guard.write(t, mixed, nil)
	requires(t, &admissionv1.ValidatingWebhookConfiguration{Webhooks: made.Webhooks[:1]})
	requires(t, &admissionv1.ValidatingWebhookConfiguration{Webhooks: made.Webhooks[1:]}, excluded)
}

// TestGuardOptIn: an opt-in takes out what the guard added and nothing else, and
// its end brings that back.
func TestGuardOptIn(t *testing.T) {
	for name, test := range map[string]struct {
		levels []string
		want   []metav1.LabelSelectorRequirement
	}{
		"by label":          {nil, []metav1.LabelSelectorRequirement{other, excluded}},
		"by label and name": {[]string{"kube-system", "default"}, []metav1.LabelSelectorRequirement{other, excluded, byName}},
	} {
		t.Run(name, func(t *testing.T) {
			p := classify.DefaultPolicy()
			p.RunLevelZero = test.levels
			guard := newGuard(t, p)
			plain := configured("policy", metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{other}}, metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{other}})
			requires(t, guard.write(t, optedIn(plain, "true"), nil), other)
			requires(t, guard.write(t, optedIn(plain, "yes"), nil), test.want...)
			guarded := guard.write(t, plain, nil)
			requires(t, guarded, test.want...)
			opened := guard.write(t, optedIn(guarded, "true"), guarded)
			requires(t, opened, other)
			requires(t, guard.write(t, opened, opened), other)
			requires(t, guard.write(t, optedIn(opened, "false"), opened), test.want...)
			// Once opted in, an owner may exclude run level 0 itself.
			requires(t, guard.write(t, optedIn(guarded, "true"), opened), test.want...)
		})
	}
}
