package admission

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/yaml"

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
			MatchConditions:  someConditions(r, atoms),
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

// TestPolicySteps: what a policy does to a request by its params, binding and actions.
func TestPolicySteps(t *testing.T) {
	for _, row := range must.Rows(t, "testdata/policies.tsv", 6) {
		t.Run(row[1], func(t *testing.T) {
			what := resource(t, row[2])
			policy := kubetest.Policy("p", kubetest.Rule(what.Group, what.Name))
			must.Succeed(t, yaml.UnmarshalStrict([]byte(row[5]), &policy.Spec))
			allCRDs := row[3] == "all CRDs"
			o := inventory.Objects{Cluster: inventory.Cluster{NamespacesKnown: allCRDs}, ValidatingPolicies: []*admissionv1.ValidatingAdmissionPolicy{policy}}
			if row[4] != "" {
				binding := kubetest.Binding("p")
				must.Succeed(t, yaml.UnmarshalStrict([]byte(row[4]), &binding.Spec))
				o.ValidatingPolicyBindings = append(o.ValidatingPolicyBindings, binding)
			}
			m := New(o.Snapshot(time.Time{}))
			if row[3] != "" && !allCRDs {
				m = m.WithParams(map[*inventory.PolicyBinding]Match{m.Snapshot.Policies[0].Bindings[0]: Match(row[3])})
			}
			expect.Equal(t, row[0], stepsOf(t, m, Create, what, Subject{Namespace: "default"}))
		})
	}
}

// steps are what policies do to a request.
func steps(t *testing.T, s *inventory.Snapshot, operation Operation, what inventory.Resource, subject Subject) string {
	t.Helper()
	return stepsOf(t, New(s), operation, what, subject)
}

func stepsOf(t *testing.T, m *Matcher, operation Operation, what inventory.Resource, subject Subject) string {
	t.Helper()
	c := m.Chain(must.Get(m.Request(operation, what, subject))(t))
	var out []string
	for _, step := range slices.Concat(c.Policies, c.SkippedPolicies) {
		out = append(out, stepOf(step))
	}
	return strings.Join(out, "; ")
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
		o := inventory.Objects{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd}}
		mutatesAt(&o, "p", test.version, admissionv1.Ignore)
		if got := steps(t, o.Snapshot(time.Time{}), test.operation, resource(t, "widgets.example.com"), Subject{Namespace: "default", Name: "w"}); got != test.want {
			t.Errorf("%s by a rule for %s: %s, want %s", test.operation, test.version, got, test.want)
		}
	}
}

// scaled has two versions and a scale.
func scaled() *apiextensionsv1.CustomResourceDefinition {
	crd := kubetest.CRD("example.com", "widgets", "v2", "v1")
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Subresources = &apiextensionsv1.CustomResourceSubresources{Scale: &apiextensionsv1.CustomResourceSubresourceScale{}}
	}
	return crd
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
		o := inventory.Objects{CRDs: []*apiextensionsv1.CustomResourceDefinition{scaled()}}
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
		if !slices.Equal(test.want, got) {
			t.Errorf("%s in %s by rules for %s: %q, want %q", test.resource, test.version, test.rule, got, test.want)
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
		if got := steps(t, o.Snapshot(time.Time{}), test.operation, resource(t, test.resource), Subject{Namespace: "default", Name: "w"}); got != test.want {
			t.Errorf("%s of %s, failurePolicy %s: %s, want %s", test.operation, test.resource, test.failure, got, test.want)
		}
	}
}

// TestRefusalBeforeAFalseCondition: what is wrong with params refuses the request before a
// matchCondition that is false leaves the policy out, if the labels that are unknown let
// it through.
func TestRefusalBeforeAFalseCondition(t *testing.T) {
	policy, binding := kubetest.Policy("p", kubetest.Rule("*", "*")), kubetest.Binding("p")
	policy.Spec.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	policy.Spec.MatchConstraints = &admissionv1.MatchResources{ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}}
	policy.Spec.MatchConditions = []admissionv1.MatchCondition{{Name: "never", Expression: "false"}}
	binding.Spec.ParamRef = &admissionv1.ParamRef{Name: "x"}
	s := inventory.Objects{
		ValidatingPolicies:       []*admissionv1.ValidatingAdmissionPolicy{policy},
		ValidatingPolicyBindings: []*admissionv1.ValidatingAdmissionPolicyBinding{binding},
	}.Snapshot(time.Time{})
	for key, want := range map[string]string{"": "p maybe: params", "app": "p yes, refused: params", "other": "- no: objectSelector"} {
		subject := Subject{Name: "n"}
		if key != "" {
			subject.Labels = map[string]string{key: "a"}
		}
		if got := steps(t, s, Create, resource(t, "nodes"), subject); got != want {
			t.Errorf("labels %q: %s, want %s", key, got, want)
		}
	}
}

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

// TestResourceNames: a rule for names is for no collection, of which the API server
// names no object.
func TestResourceNames(t *testing.T) {
	named := kubetest.Policy("p", pods())
	named.Spec.MatchConstraints.ResourceRules[0].ResourceNames = []string{"web"}
	m := New(inventory.Objects{
		ValidatingPolicies:       []*admissionv1.ValidatingAdmissionPolicy{named},
		ValidatingPolicyBindings: []*admissionv1.ValidatingAdmissionPolicyBinding{kubetest.Binding("p")},
	}.Snapshot(time.Time{}))
	got := map[string]Match{}
	for _, name := range []string{"", "web", "other"} {
		r := must.Get(m.Request(Delete, inventory.Resource{Name: "pods"}, Subject{Name: name}))(t)
		got[name] = m.MatchPolicy(r, m.Snapshot.Policies[0], nil).Match
	}
	expect.Equal(t, map[string]Match{"": Maybe, "web": Yes, "other": No}, got)
}
