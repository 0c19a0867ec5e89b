package admission

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// criteria are what a policy or binding asks for, as the upstream matcher takes it.
type criteria struct{ admissionv1.MatchResources }

func (c criteria) GetParsedNamespaceSelector() (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(c.NamespaceSelector)
}

func (c criteria) GetParsedObjectSelector() (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(c.ObjectSelector)
}

func (c criteria) GetMatchResources() admissionv1.MatchResources { return c.MatchResources }

// equivalence is the part of the API server that its matcher asks.
type equivalence struct {
	admission.ObjectInterfaces
	runtime.EquivalentResourceMapper
}

func (e equivalence) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper {
	return e.EquivalentResourceMapper
}

// decidePolicy is what the API server does by a policy and a binding.
func (j *reference) decidePolicy(p *inventory.AdmissionPolicy, spec, binding admissionv1.MatchResources, attr admission.Attributes) string {
	parent := inventory.Resource{Group: attr.GetResource().Group, Name: attr.GetResource().Resource}
	if slices.Contains(neverJudged, parent) {
		return skipped
	}
	m := matching.NewMatcher(j.namespaces.NamespaceLister, nil)
	server := equivalence{EquivalentResourceMapper: j.registry}
	matches, _, kind, err := m.Matches(attr, server, criteria{spec})
	if err == nil && matches {
		matches, _, _, err = m.Matches(attr, server, criteria{binding})
	}
	switch {
	case err != nil:
		return refused
	case !matches:
		return skipped
	}
	return j.conditions(&p.Registration, attr, kind)
}

func someMatchResources(r *rand.Rand) admissionv1.MatchResources {
	m := admissionv1.MatchResources{
		MatchPolicy:       new(pick(r, admissionv1.Equivalent, admissionv1.Exact)),
		NamespaceSelector: someSelector(r).Raw,
		ObjectSelector:    someSelector(r).Raw,
		ResourceRules:     someNamedRules(r),
	}
	if r.IntN(3) > 0 { // else hardly any request gets past the rules
		m.ResourceRules[0].APIGroups, m.ResourceRules[0].Resources = []string{"*"}, []string{"*/*"}
	}
	if r.IntN(3) == 0 {
		m.ExcludeResourceRules = someNamedRules(r)
	}
	return m
}

func someNamedRules(r *rand.Rand) []admissionv1.NamedRuleWithOperations {
	var out []admissionv1.NamedRuleWithOperations
	for _, rule := range generated(r).Rules {
		named := admissionv1.NamedRuleWithOperations{RuleWithOperations: rule}
		if r.IntN(3) == 0 {
			named.ResourceNames = some(r, []string{"pod", "web-0", "default", "other"})
		}
		out = append(out, named)
	}
	return out
}

// FuzzPolicyAgreesWithTheAPIServer holds verdicts on policies and bindings against the
// API server's own matcher.
func FuzzPolicyAgreesWithTheAPIServer(f *testing.F) {
	for seed := range uint64(500) {
		f.Add(seed)
	}
	m := worlds()[1]
	server := newReference(m.Snapshot)
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 2))
		spec, bound := someMatchResources(r), someMatchResources(r)
		if r.IntN(2) == 0 {
			bound = admissionv1.MatchResources{MatchPolicy: bound.MatchPolicy, NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{}}
		}
		policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &spec,
			FailurePolicy:    new(pick(r, admissionv1.Fail, admissionv1.Ignore)),
			MatchConditions:  someConditions(r, slices.Concat(decided, decided, open, broken)),
		}}
		binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "p", MatchResources: &bound, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		}}
		p := inventory.Objects{
			ValidatingPolicies:       []*admissionv1.ValidatingAdmissionPolicy{policy},
			ValidatingPolicyBindings: []*admissionv1.ValidatingAdmissionPolicyBinding{binding},
			Discovered:               []inventory.Served{},
		}.Snapshot(time.Time{}).Policies[0]
		for range 20 {
			q, v := someRequest(r, m)
			verdict := m.MatchPolicy(q, p, p.Bindings[0])
			for range 4 {
				server.allows = pick(r, authorizer.DecisionAllow, authorizer.DecisionDeny)
				attr := complete(r, q, v)
				if got := server.decidePolicy(p, spec, bound, attr); !agrees(verdict, got) {
					t.Fatalf("%+v, but the API server: %s\nrequest %+v named %q in %s as %+v\npolicy %+v\nbinding %+v", verdict, got, q, attr.GetName(), q.Namespace, attr.GetObject(), policy.Spec, bound)
				}
			}
		}
	})
}

func validatingPolicy(name string, change func(*admissionv1.ValidatingAdmissionPolicySpec)) *admissionv1.ValidatingAdmissionPolicy {
	p := kubetest.Policy(name, pods())
	change(&p.Spec)
	return p
}

func bindingOf(policy string, change func(*admissionv1.ValidatingAdmissionPolicyBindingSpec)) *admissionv1.ValidatingAdmissionPolicyBinding {
	b := kubetest.Binding(policy)
	change(&b.Spec)
	return b
}

// TestPolicySteps: what a policy does to a request by its params, binding and actions.
func TestPolicySteps(t *testing.T) {
	fails := []admissionv1.MatchCondition{{Name: "c", Expression: `1 / 0 == 1`}}
	none := func(*admissionv1.ValidatingAdmissionPolicyBindingSpec) {}
	params := func(apiVersion, kind string) func(*admissionv1.ValidatingAdmissionPolicySpec) {
		return func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.ParamKind = &admissionv1.ParamKind{APIVersion: apiVersion, Kind: kind}
		}
	}
	ref := func(namespace string, action admissionv1.ParameterNotFoundActionType) func(*admissionv1.ValidatingAdmissionPolicyBindingSpec) {
		return func(s *admissionv1.ValidatingAdmissionPolicyBindingSpec) {
			s.ParamRef = &admissionv1.ParamRef{Name: "limits", Namespace: namespace, ParameterNotFoundAction: &action}
		}
	}
	for name, test := range map[string]struct {
		policy  func(*admissionv1.ValidatingAdmissionPolicySpec)
		binding func(*admissionv1.ValidatingAdmissionPolicyBindingSpec)
		cluster bool
		// resource is pods where it is "".
		resource string
		// paramsIn are the namespaces with params; nil is unknown.
		paramsIn []string
		want     string
	}{
		"is evaluated": {policy: func(*admissionv1.ValidatingAdmissionPolicySpec) {}, binding: none, want: "p yes"},
		"no binding":   {policy: func(*admissionv1.ValidatingAdmissionPolicySpec) {}, want: "- no: binding"},
		"bound elsewhere": {policy: func(*admissionv1.ValidatingAdmissionPolicySpec) {}, binding: func(s *admissionv1.ValidatingAdmissionPolicyBindingSpec) {
			s.MatchResources = &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "other"}}}
		}, want: "p no: binding"},
		"excluded": {policy: func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.MatchConstraints.ExcludeResourceRules = s.MatchConstraints.ResourceRules
		}, binding: none, want: "- no: excludeResourceRules"},
		"a failing condition": {policy: func(s *admissionv1.ValidatingAdmissionPolicySpec) { s.MatchConditions = fails }, binding: none, want: "p yes, refused: matchConditions"},
		"a failing condition that warns": {policy: func(s *admissionv1.ValidatingAdmissionPolicySpec) { s.MatchConditions = fails }, binding: func(s *admissionv1.ValidatingAdmissionPolicyBindingSpec) {
			s.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn}
		}, want: "p yes"},
		"a failing condition, ignored": {policy: func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.MatchConditions, s.FailurePolicy = fails, new(admissionv1.Ignore)
		}, binding: none, want: "p no: matchConditions"},
		"a condition on params": {policy: func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			params("v1", "ConfigMap")(s)
			s.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: `params == null`}}
		}, binding: none, want: "p yes"},
		"a condition on variables": {policy: func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: `variables.x > 1`}}
		}, binding: none, want: "p maybe: matchConditions"},
		"params that may exist":  {policy: params("v1", "ConfigMap"), binding: ref("", admissionv1.AllowAction), want: "p maybe: params"},
		"params that must exist": {policy: params("v1", "ConfigMap"), binding: ref("", admissionv1.DenyAction), want: "p maybe: params"},
		"params that must exist, before a condition": {policy: func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			params("v1", "ConfigMap")(s)
			s.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: "false"}}
		}, binding: ref("", admissionv1.DenyAction), want: "p maybe: params"},
		"params that may exist, before a condition": {policy: func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			params("v1", "ConfigMap")(s)
			s.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: "false"}}
		}, binding: ref("", admissionv1.AllowAction), want: "p no: matchConditions"},
		"params of a CRD outside the input, before a binding": {policy: params("x.example.com/v1", "Limits"), binding: func(s *admissionv1.ValidatingAdmissionPolicyBindingSpec) {
			s.MatchResources = &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "other"}}}
		}, want: "p maybe: params"},
		"params that exist":                      {policy: params("v1", "ConfigMap"), binding: ref("", admissionv1.DenyAction), paramsIn: []string{"default"}, want: "p yes"},
		"params that exist elsewhere":            {policy: params("v1", "ConfigMap"), binding: ref("", admissionv1.DenyAction), paramsIn: []string{"shop"}, want: "p yes, refused: params"},
		"params that exist where they are named": {policy: params("v1", "ConfigMap"), binding: ref("shop", admissionv1.DenyAction), paramsIn: []string{"shop"}, resource: "nodes", want: "p yes"},
		"cluster-scoped params that exist":       {policy: params("v1", "Node"), binding: ref("", admissionv1.DenyAction), paramsIn: []string{""}, want: "p yes"},
		"params that do not exist":               {policy: params("v1", "ConfigMap"), binding: ref("", admissionv1.DenyAction), paramsIn: []string{}, want: "p yes, refused: params"},
		"params that need not exist":             {policy: params("v1", "ConfigMap"), binding: ref("", admissionv1.AllowAction), paramsIn: []string{}, want: "p no: params"},
		"params that do not exist, ignored": {policy: func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			params("v1", "ConfigMap")(s)
			s.FailurePolicy = new(admissionv1.Ignore)
		}, binding: ref("", admissionv1.DenyAction), paramsIn: []string{}, want: "p no: params"},
		"params that do not exist, before a condition": {policy: func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			params("v1", "ConfigMap")(s)
			s.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: "false"}}
		}, binding: ref("", admissionv1.DenyAction), paramsIn: []string{}, want: "p yes, refused: params"},
		"params of no kind":                  {policy: params("v1", "Limits"), binding: ref("", admissionv1.AllowAction), want: "- yes, refused: params"},
		"params of a CRD outside the input":  {policy: params("x.example.com/v1", "Limits"), binding: ref("", admissionv1.AllowAction), want: "p maybe: params"},
		"params of a CRD that is gone":       {policy: params("x.example.com/v1", "Limits"), binding: ref("", admissionv1.AllowAction), cluster: true, want: "- yes, refused: params"},
		"params for a cluster-scoped object": {policy: params("v1", "ConfigMap"), binding: ref("", admissionv1.AllowAction), resource: "nodes", want: "p yes, refused: params"},
		"params in a named namespace":        {policy: params("v1", "ConfigMap"), binding: ref("shop", admissionv1.AllowAction), resource: "nodes", want: "p maybe: params"},
		"cluster-scoped params in one":       {policy: params("v1", "Node"), binding: ref("shop", admissionv1.AllowAction), want: "p yes, refused: params"},
		"a review":                           {policy: func(*admissionv1.ValidatingAdmissionPolicySpec) {}, binding: none, resource: "tokenreviews.authentication.k8s.io", want: "- no: excluded"},
		"a policy":                           {policy: func(*admissionv1.ValidatingAdmissionPolicySpec) {}, binding: none, resource: "validatingadmissionpolicies.admissionregistration.k8s.io", want: "- no: excluded"},
		"a webhook configuration":            {policy: func(*admissionv1.ValidatingAdmissionPolicySpec) {}, binding: none, resource: "validatingwebhookconfigurations.admissionregistration.k8s.io", want: "p yes"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.resource == "" {
				test.resource = "pods"
			}
			what := resource(t, test.resource)
			o := inventory.Objects{NamespacesKnown: test.cluster, ValidatingPolicies: []*admissionv1.ValidatingAdmissionPolicy{validatingPolicy("p", func(s *admissionv1.ValidatingAdmissionPolicySpec) {
				rule := &s.MatchConstraints.ResourceRules[0]
				rule.APIGroups, rule.Resources = []string{what.Group}, []string{what.Name}
				test.policy(s)
			})}}
			if test.binding != nil {
				o.ValidatingPolicyBindings = append(o.ValidatingPolicyBindings, bindingOf("p", test.binding))
			}
			s := o.Snapshot(time.Time{})
			for _, b := range s.Policies[0].Bindings {
				b.ParamsIn, b.ParamsKnown = test.paramsIn, test.paramsIn != nil
			}
			m := New(s)
			r := must.Get(m.Request(Create, what, Subject{Namespace: "default"}))(t)
			c := m.Chain(r)
			var got []string
			for _, step := range slices.Concat(c.Policies, c.SkippedPolicies) {
				got = append(got, stepOf(step))
			}
			if text := strings.Join(got, "; "); text != test.want {
				t.Errorf("%s, want %s", text, test.want)
			}
		})
	}
}

func stepOf(step PolicyStep) string {
	text := "- "
	if step.Binding != nil {
		text = step.Binding.Object.Name + " "
	}
	text += string(step.Match)
	if step.Refused {
		text += ", refused"
	}
	if step.Reason != "" {
		text += ": " + string(step.Reason)
	}
	return text
}

// TestMutatingPoliciesOfWhatCannotBeMutated: none is asked about what is deleted, and in
// a version of a CRD that is not served none has a schema to mutate by.
func TestMutatingPoliciesOfWhatCannotBeMutated(t *testing.T) {
	crd := kubetest.CRD("example.com", "widgets", "v2", "v1")
	crd.Spec.Versions[0].Served = false
	for _, test := range []struct {
		operation Operation
		version   string
		want      string
	}{
		{Create, "v1", "p yes"},
		{Create, "v2", "p yes, refused: rules"},
		{Delete, "v1", "- no: rules"},
	} {
		rule := admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.OperationAll},
			Rule:       admissionv1.Rule{APIGroups: []string{"example.com"}, APIVersions: []string{test.version}, Resources: []string{"widgets"}},
		}}
		o := inventory.Objects{
			CRDs: []*apiextensionsv1.CustomResourceDefinition{crd},
			MutatingPolicies: []*admissionv1.MutatingAdmissionPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionv1.MutatingAdmissionPolicySpec{
				FailurePolicy: new(admissionv1.Ignore), MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{rule}},
			}}},
			MutatingPolicyBindings: []*admissionv1.MutatingAdmissionPolicyBinding{{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "p"}}},
		}
		m := New(o.Snapshot(time.Time{}))
		r := must.Get(m.Request(test.operation, resource(t, "widgets.example.com"), Subject{Namespace: "default", Name: "w"}))(t)
		c := m.Chain(r)
		if steps := slices.Concat(c.Policies, c.SkippedPolicies); len(steps) != 1 || stepOf(steps[0]) != test.want {
			t.Errorf("%s by a rule for %s: %+v, want %s", test.operation, test.version, steps, test.want)
		}
	}
}

// TestApplyConfigurations: there is no type of what belongs to another group than its
// resource, nor of what a CONNECT carries.
func TestApplyConfigurations(t *testing.T) {
	for _, test := range []struct {
		failure   admissionv1.FailurePolicyType
		operation Operation
		resource  string
		want      string
	}{
		{admissionv1.Fail, Create, "pods", "p yes"},
		{admissionv1.Fail, Create, "pods/binding", "p yes"},
		{admissionv1.Fail, Create, "pods/eviction", "p yes, refused: rules"},
		{admissionv1.Fail, Update, "deployments.apps/scale", "p yes, refused: rules"},
		{admissionv1.Fail, Update, "deployments.apps/status", "p yes"},
		{admissionv1.Fail, Connect, "pods/exec", "p yes, refused: rules"},
		{admissionv1.Ignore, Create, "serviceaccounts/token", "p no: rules"},
	} {
		o := inventory.Objects{}
		mutatesAt(&o, "p", "v1", test.failure)
		o.MutatingPolicies[0].Spec.Mutations = []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeApplyConfiguration}}
		m := New(o.Snapshot(time.Time{}))
		r := must.Get(m.Request(test.operation, resource(t, test.resource), Subject{Namespace: "default", Name: "w"}))(t)
		c := m.Chain(r)
		if steps := slices.Concat(c.Policies, c.SkippedPolicies); len(steps) != 1 || stepOf(steps[0]) != test.want {
			t.Errorf("%s of %s, failurePolicy %s: %+v, want %s", test.operation, test.resource, test.failure, steps, test.want)
		}
	}
}

// TestRefusalBeforeAFalseCondition: what is wrong with params refuses the request before a
// matchCondition that is false leaves the policy out, if the labels that are not known let
// it through.
func TestRefusalBeforeAFalseCondition(t *testing.T) {
	for labels, want := range map[string]string{"": "p maybe: params", "app": "p yes, refused: params", "other": "- no: objectSelector"} {
		o := inventory.Objects{
			ValidatingPolicies: []*admissionv1.ValidatingAdmissionPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
				ParamKind:        &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
				MatchConstraints: &admissionv1.MatchResources{ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}},
				MatchConditions:  []admissionv1.MatchCondition{{Name: "never", Expression: "false"}},
			}}},
			ValidatingPolicyBindings: []*admissionv1.ValidatingAdmissionPolicyBinding{{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: "p", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}, ParamRef: &admissionv1.ParamRef{Name: "x"},
			}}},
		}
		subject := Subject{Name: "n"}
		if labels != "" {
			subject.Labels = map[string]string{labels: "a"}
		}
		m := New(o.Snapshot(time.Time{}))
		c := m.Chain(must.Get(m.Request(Create, resource(t, "nodes"), subject))(t))
		if steps := slices.Concat(c.Policies, c.SkippedPolicies); len(steps) != 1 || stepOf(steps[0]) != want {
			t.Errorf("labels %q: %+v, want %s", labels, steps, want)
		}
	}
}

// TestLabelsOfTheTemplate: a Job without labels takes those of its template, and is given
// more with them.
func TestLabelsOfTheTemplate(t *testing.T) {
	job := map[string]any{"kind": "Job", "spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "a"}}}}}
	for selected, want := range map[string]map[bool]Match{
		"app":      {true: Yes, false: Maybe},
		"job-name": {true: Maybe, false: Maybe},
		"other":    {true: No, false: Maybe},
	} {
		for written, match := range want {
			w := validating("a", func(w *admissionv1.ValidatingWebhook) {
				w.Rules[0].APIGroups, w.Rules[0].Resources = []string{"batch"}, []string{"jobs"}
				w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{selected: "a"}}
			})
			subject := Subject{Namespace: "shop", Labels: Unlabeled}
			if written {
				subject.Object = job
			}
			s := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{w}}.Snapshot(time.Time{})
			r := must.Get(New(s).Request(Create, resource(t, "jobs.batch"), subject))(t)
			if got := r.Match(s.Webhooks[0]); got.Match != match {
				t.Errorf("selector on %s, object known %t: %+v, want %s", selected, written, got, match)
			}
		}
	}
}

// scaled has two versions and a scale.
var scaled = func() *apiextensionsv1.CustomResourceDefinition {
	version := func(name string) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: true, Storage: name == "v1", Subresources: &apiextensionsv1.CustomResourceSubresources{Scale: &apiextensionsv1.CustomResourceSubresourceScale{}}}
	}
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
		Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1"), version("v2")},
	}}
}()

// mutatesAt adds a mutating policy on everything of one version, and a binding.
func mutatesAt(o *inventory.Objects, name, version string, failure admissionv1.FailurePolicyType) {
	rule := admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.OperationAll},
		Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{version}, Resources: []string{"*/*"}},
	}}
	o.MutatingPolicies = append(o.MutatingPolicies, &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.MutatingAdmissionPolicySpec{
		FailurePolicy: &failure, MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{rule}},
	}})
	o.MutatingPolicyBindings = append(o.MutatingPolicyBindings, &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name}})
}

// TestMutatingPoliciesOfOtherVersions: what one makes of a built-in object in another
// version than the request's cannot be converted back, nor the Scale of a custom resource;
// of several that meet a custom resource in several versions, one version is kept.
func TestMutatingPoliciesOfOtherVersions(t *testing.T) {
	const lost = "in several versions"
	for _, test := range []struct {
		resource, version, rule string
		failure                 admissionv1.FailurePolicyType
		want                    []string
	}{
		{"horizontalpodautoscalers.autoscaling", "v2", "v1", admissionv1.Fail, []string{"p yes, refused: rules"}},
		{"horizontalpodautoscalers.autoscaling", "v2", "v1", admissionv1.Ignore, []string{"p no: rules"}},
		{"horizontalpodautoscalers.autoscaling", "v2", "v2", admissionv1.Fail, []string{"p yes"}},
		{"horizontalpodautoscalers.autoscaling", "v2", "v2 v1", admissionv1.Ignore, []string{"p yes", "p no: rules", lost}},
		{"events", "v1", "v1", admissionv1.Fail, []string{"p yes"}},
		{"deployments.apps/scale", "v1", "*", admissionv1.Fail, []string{"p yes"}},
		{"widgets.example.com/scale", "v1", "*", admissionv1.Fail, []string{"p yes, refused: rules"}},
		{"widgets.example.com", "v1", "v2", admissionv1.Fail, []string{"p yes"}},
		{"widgets.example.com", "v1", "v1 v2", admissionv1.Fail, []string{"p yes", "p yes", lost}},
	} {
		o := inventory.Objects{CRDs: []*apiextensionsv1.CustomResourceDefinition{scaled}}
		for i, version := range strings.Fields(test.rule) {
			mutatesAt(&o, fmt.Sprintf("p%d", i), version, test.failure)
		}
		m := New(o.Snapshot(time.Time{}))
		r := must.Get(m.Request(Update, resource(t, test.resource), Subject{Namespace: "default", Name: "w", Version: test.version}))(t)
		c := m.Chain(r)
		var got []string
		for _, step := range slices.Concat(c.Policies, c.SkippedPolicies) {
			got = append(got, strings.Replace(stepOf(step), step.Policy.Object.Name, "p", 1))
		}
		for _, note := range c.Request.Notes {
			if strings.Contains(note, lost) {
				got = append(got, lost)
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s in %s by rules for %s: -want +got\n%s", test.resource, test.version, test.rule, diff)
		}
	}
}

// TestResourceNames: a rule for names is for no collection, of which the API server
// names no object.
func TestResourceNames(t *testing.T) {
	named := validatingPolicy("p", func(s *admissionv1.ValidatingAdmissionPolicySpec) {
		s.MatchConstraints.ResourceRules[0].ResourceNames = []string{"web"}
	})
	m := New(inventory.Objects{
		ValidatingPolicies:       []*admissionv1.ValidatingAdmissionPolicy{named},
		ValidatingPolicyBindings: []*admissionv1.ValidatingAdmissionPolicyBinding{bindingOf("p", func(*admissionv1.ValidatingAdmissionPolicyBindingSpec) {})},
	}.Snapshot(time.Time{}))
	got := map[string]Match{}
	for _, name := range []string{"", "web", "other"} {
		r := must.Get(m.Request(Delete, inventory.Resource{Name: "pods"}, Subject{Name: name}))(t)
		got[name] = m.MatchPolicy(r, m.Snapshot.Policies[0], nil).Match
	}
	expect.Equal(t, map[string]Match{"": Maybe, "web": Yes, "other": No}, got)
}

// TestPolicyErrors: an expression that does not compile is named once, and decides
// nothing.
func TestPolicyErrors(t *testing.T) {
	o := inventory.Objects{CRDs: []*apiextensionsv1.CustomResourceDefinition{widgets()}}
	for i := range 3 {
		name := fmt.Sprint("p", i)
		o.ValidatingPolicies = append(o.ValidatingPolicies, validatingPolicy(name, func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			if i == 1 {
				s.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: `object.`}}
			}
		}))
		o.ValidatingPolicyBindings = append(o.ValidatingPolicyBindings, bindingOf(name, func(*admissionv1.ValidatingAdmissionPolicyBindingSpec) {}))
	}
	m := New(o.Snapshot(time.Time{}))
	if errors := m.Errors(); len(errors) != 1 || errors[0].Object != "ValidatingAdmissionPolicy/p1" {
		t.Errorf("errors %v, want one about p1", errors)
	}
	r := must.Get(m.Request(Create, inventory.Resource{Name: "pods"}, Subject{}))(t)
	var got []string
	for _, step := range m.Chain(r).Policies {
		got = append(got, stepOf(step))
	}
	expect.Equal(t, []string{"p0 yes", "p1 maybe: matchConditions", "p2 yes"}, got)
}
