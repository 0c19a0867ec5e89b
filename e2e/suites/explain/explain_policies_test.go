package explain

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// The admission policies of a round show by themselves whether they are evaluated. A
// validating one warns, with its name and that of the binding; a mutating one adds an
// annotation of its name, which the first mutating webhook finds in the object.

// policy is an admission policy of a round, with its bindings.
type policy struct {
	name     string
	mutating bool
	// applies policies change objects as a server-side apply does.
	applies bool
	// silent policies deny nothing and show nothing but a matchCondition that fails.
	silent       bool
	failure      admissionv1.FailurePolicyType
	reinvocation admissionv1.ReinvocationPolicyType
	match        admissionv1.MatchResources
	conditions   []admissionv1.MatchCondition
	params       *admissionv1.ParamKind
	bindings     []policyBinding
}

type policyBinding struct {
	name    string
	match   *admissionv1.MatchResources
	params  *admissionv1.ParamRef
	actions []admissionv1.ValidationAction
}

// generatedPolicies are what a round registers beside its webhooks; older API servers
// have no mutating ones.
func (e explainer) generatedPolicies(r *rand.Rand, prefix string) []policy {
	var out []policy
	for i := range 6 {
		out = append(out, e.generatedPolicy(r, policy{name: fmt.Sprintf("%s-v%d", prefix, i), silent: r.IntN(6) == 0}))
	}
	for i := range 4 {
		if e.mutates {
			out = append(out, e.generatedPolicy(r, policy{name: fmt.Sprintf("%s-m%d", prefix, i), mutating: true, applies: r.IntN(2) == 0}))
		}
	}
	return out
}

func (e explainer) generatedPolicy(r *rand.Rand, p policy) policy {
	p.failure = pick(r, admissionv1.Fail, admissionv1.Ignore)
	p.reinvocation = pick(r, admissionv1.NeverReinvocationPolicy, admissionv1.IfNeededReinvocationPolicy)
	p.match = *someMatch(r, p.mutating)
	p.params = someParamKind(r, &p)
	if r.IntN(3) == 0 {
		// Of the registrations of a round, which are no dry runs, none may be refused.
		expression := fmt.Sprintf(`request.resource.group == "admissionregistration.k8s.io" && !request.?dryRun.orValue(false) || request.?namespace.orValue("") == %q || %s`,
			e.backend.Namespace, somePolicyExpression(r, p.params != nil))
		p.conditions = []admissionv1.MatchCondition{{Name: "c0", Expression: expression}}
	}
	n := 1 + r.IntN(2)
	if p.mutating { // it does not show by which it is evaluated
		n = 1
	}
	for i := range n {
		p.bindings = append(p.bindings, someBinding(r, p, fmt.Sprintf("%s-%d", p.name, i)))
	}
	return p
}

// someParamKind is hardly ever one that is not served: that refuses all requests.
func someParamKind(r *rand.Rand, p *policy) *admissionv1.ParamKind {
	switch n := r.IntN(30); {
	case n == 0:
		p.match.ResourceRules = []admissionv1.NamedRuleWithOperations{{RuleWithOperations: testenv.Rule("", "secrets")}}
		p.match.ResourceRules[0].Operations = []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}
		return &admissionv1.ParamKind{APIVersion: "explain.example.com/v1", Kind: "Missing"}
	case n < 4:
		p.match.ExcludeResourceRules = append(p.match.ExcludeResourceRules, sentinelRequest(), registrations())
		return &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	case n < 6:
		p.match.ExcludeResourceRules = append(p.match.ExcludeResourceRules, sentinelRequest(), registrations())
		return &admissionv1.ParamKind{APIVersion: "v1", Kind: "Namespace"}
	}
	return nil
}

// sentinelRequest covers what sentinels are asked about, which params that are missing
// would refuse.
func sentinelRequest() admissionv1.NamedRuleWithOperations {
	out := admissionv1.NamedRuleWithOperations{RuleWithOperations: testenv.Rule("", "configmaps"), ResourceNames: []string{sentinelName}}
	out.Operations = []admissionv1.OperationType{admissionv1.Create}
	return out
}

// registrations covers the configurations of the round themselves, for the same reason.
func registrations() admissionv1.NamedRuleWithOperations {
	out := admissionv1.NamedRuleWithOperations{RuleWithOperations: testenv.Rule("admissionregistration.k8s.io", "*")}
	out.Operations = []admissionv1.OperationType{admissionv1.OperationAll}
	return out
}

const sentinelName = "sentinel"

// withoutParams leaves out the steps of policies with params: a file does not show
// which exist.
func (c *configurations) withoutParams(e explanation) explanation {
	hasParams := func(name string) bool {
		return slices.ContainsFunc(c.policies, func(p policy) bool { return p.name == name && p.params != nil })
	}
	var out explanation // without its notes, which count such policies as well
	for _, step := range e.Chain {
		if !hasParams(step.Name) {
			out.Chain = append(out.Chain, step)
		}
	}
	for _, step := range e.Skipped {
		if !hasParams(step.Name) {
			out.Skipped = append(out.Skipped, step)
		}
	}
	return out
}

func someBinding(r *rand.Rand, p policy, name string) policyBinding {
	b := policyBinding{name: name, actions: pick(r, []admissionv1.ValidationAction{admissionv1.Warn}, []admissionv1.ValidationAction{admissionv1.Audit, admissionv1.Warn})}
	if p.silent {
		b.actions = []admissionv1.ValidationAction{admissionv1.Deny}
	}
	if r.IntN(3) == 0 {
		b.match = someMatch(r, p.mutating)
		if r.IntN(2) == 0 {
			b.match.ResourceRules = nil
		}
	}
	if p.params != nil && r.IntN(5) == 0 || p.params == nil && r.IntN(8) > 0 {
		return b
	}
	b.params = &admissionv1.ParamRef{ParameterNotFoundAction: new(pick(r, admissionv1.AllowAction, admissionv1.AllowAction, admissionv1.DenyAction))}
	if r.IntN(2) == 0 {
		b.params.Name = pick(r, "exp", "exp", "explain-a", "none")
	} else {
		b.params.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	}
	if p.params == nil || p.params.Kind == "ConfigMap" && r.IntN(2) == 0 {
		b.params.Namespace = "explain-a"
	}
	return b
}

func someMatch(r *rand.Rand, mutating bool) *admissionv1.MatchResources {
	m := &admissionv1.MatchResources{
		MatchPolicy:       new(pick(r, admissionv1.Equivalent, admissionv1.Equivalent, admissionv1.Exact)),
		NamespaceSelector: someSelector(r, 3),
		ObjectSelector:    someSelector(r, 4),
	}
	for range 1 + r.IntN(2) {
		m.ResourceRules = append(m.ResourceRules, someNamedRule(r, mutating, 5))
	}
	if r.IntN(4) == 0 {
		m.ExcludeResourceRules = append(m.ExcludeResourceRules, someNamedRule(r, mutating, 2))
	}
	return m
}

// someNamedRule asks for names one in so many times.
func someNamedRule(r *rand.Rand, mutating bool, one int) admissionv1.NamedRuleWithOperations {
	rule := admissionv1.NamedRuleWithOperations{RuleWithOperations: someRule(r)}
	if mutating { // what is deleted cannot be changed, says the validation
		rule.Operations = slices.DeleteFunc(slices.Clone(rule.Operations), func(o admissionv1.OperationType) bool { return o == admissionv1.Delete })
	}
	if r.IntN(one) == 0 {
		rule.ResourceNames = pick(r, []string{"exp"}, []string{"explained"}, []string{"exp", "explain-a", "missing"})
	}
	return rule
}

// somePolicyExpression may ask for params, where there is a kind of them.
func somePolicyExpression(r *rand.Rand, params bool) string {
	if params && r.IntN(2) == 0 {
		return pick(r, `params == null`, `params != null`, `params.?metadata.?name.orValue("") == "exp"`, `params.metadata.name != ""`)
	}
	return someExpression(r, 2)
}

func (p policy) objects() []any {
	metadata := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	kind := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: kind}
	}
	var out []any
	if p.mutating {
		out = append(out, &admissionv1.MutatingAdmissionPolicy{
			TypeMeta: kind("MutatingAdmissionPolicy"), ObjectMeta: metadata(p.name),
			Spec: admissionv1.MutatingAdmissionPolicySpec{
				FailurePolicy: &p.failure, ReinvocationPolicy: p.reinvocation, MatchConstraints: &p.match, MatchConditions: p.conditions, ParamKind: p.params,
				Mutations: []admissionv1.Mutation{p.mutation()},
			},
		})
	} else {
		out = append(out, &admissionv1.ValidatingAdmissionPolicy{
			TypeMeta: kind("ValidatingAdmissionPolicy"), ObjectMeta: metadata(p.name),
			Spec: admissionv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: &p.failure, MatchConstraints: &p.match, MatchConditions: p.conditions, ParamKind: p.params,
				Validations: []admissionv1.Validation{{Expression: fmt.Sprint(p.silent), Message: "evaluated"}},
			},
		})
	}
	for _, b := range p.bindings {
		if p.mutating {
			out = append(out, &admissionv1.MutatingAdmissionPolicyBinding{
				TypeMeta: kind("MutatingAdmissionPolicyBinding"), ObjectMeta: metadata(b.name),
				Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: p.name, MatchResources: b.match, ParamRef: b.params},
			})
		} else {
			out = append(out, &admissionv1.ValidatingAdmissionPolicyBinding{
				TypeMeta: kind("ValidatingAdmissionPolicyBinding"), ObjectMeta: metadata(b.name),
				Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: p.name, MatchResources: b.match, ParamRef: b.params, ValidationActions: b.actions},
			})
		}
	}
	return out
}

func (p policy) mutation() admissionv1.Mutation {
	if p.applies {
		return admissionv1.Mutation{PatchType: admissionv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionv1.ApplyConfiguration{
			Expression: fmt.Sprintf("Object{metadata: Object.metadata{annotations: {%q: 'x'}}}", p.annotation()),
		}}
	}
	return admissionv1.Mutation{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: addAnnotation(p.annotation())}}
}

func (p policy) annotation() string { return "explain.example.com/" + p.name }

// addAnnotation is a mutation of what has metadata. No selector and no expression of a
// round reads annotations.
func addAnnotation(key string) string {
	return fmt.Sprintf(`!has(object.metadata) ? [] : [has(object.metadata.annotations) ?
JSONPatch{op: "add", path: "/metadata/annotations/" + jsonpatch.escapeKey(%q), value: "x"} :
JSONPatch{op: "add", path: "/metadata/annotations", value: {%q: "x"}}]`, key, key)
}

// create creates the objects of policies, as the API server returns them.
func (e explainer) create(t *testing.T, c *configurations, objects []any) {
	t.Helper()
	ctx, api := context.Background(), e.Kube.AdmissionregistrationV1()
	for _, object := range objects {
		var err error
		switch o := object.(type) {
		case *admissionv1.ValidatingAdmissionPolicy:
			_, err = api.ValidatingAdmissionPolicies().Create(ctx, o, metav1.CreateOptions{})
			c.removes(t, func() error { return api.ValidatingAdmissionPolicies().Delete(ctx, o.Name, metav1.DeleteOptions{}) })
		case *admissionv1.ValidatingAdmissionPolicyBinding:
			_, err = api.ValidatingAdmissionPolicyBindings().Create(ctx, o, metav1.CreateOptions{})
			c.removes(t, func() error {
				return api.ValidatingAdmissionPolicyBindings().Delete(ctx, o.Name, metav1.DeleteOptions{})
			})
		case *admissionv1.MutatingAdmissionPolicy:
			_, err = api.MutatingAdmissionPolicies().Create(ctx, o, metav1.CreateOptions{})
			c.removes(t, func() error { return api.MutatingAdmissionPolicies().Delete(ctx, o.Name, metav1.DeleteOptions{}) })
		case *admissionv1.MutatingAdmissionPolicyBinding:
			_, err = api.MutatingAdmissionPolicyBindings().Create(ctx, o, metav1.CreateOptions{})
			c.removes(t, func() error { return api.MutatingAdmissionPolicyBindings().Delete(ctx, o.Name, metav1.DeleteOptions{}) })
		}
		testenv.Must(t, err)
	}
}

// registerPolicies creates the policies of the round, and last of all some that show
// that the API server knows all. It returns what these show.
func (e explainer) registerPolicies(t *testing.T, c *configurations) (names []string) {
	t.Helper()
	for _, p := range c.policies {
		objects := p.objects()
		e.create(t, c, objects)
		c.objects = append(c.objects, objects...)
	}
	once := fmt.Sprintf("sentinel-%d", time.Now().UnixNano())
	rules := []admissionv1.NamedRuleWithOperations{{RuleWithOperations: testenv.Rule("", "configmaps")}}
	mine := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: e.backend.Namespace}}
	for _, mutating := range []bool{false, true} {
		if mutating && !e.mutates {
			continue
		}
		p := policy{name: fmt.Sprintf("%s-%t", once, mutating), mutating: mutating, failure: admissionv1.Fail, reinvocation: admissionv1.NeverReinvocationPolicy}
		p.match.ResourceRules, p.match.NamespaceSelector = rules, mine
		p.bindings = []policyBinding{{name: p.name, actions: []admissionv1.ValidationAction{admissionv1.Warn}}}
		e.create(t, c, p.objects())
		names = append(names, p.name)
	}
	return names
}

// observer is the webhook that shows what the mutating policies made of any object: the
// first that is called, as others replace all annotations.
func (e explainer) observer(c *configurations) (configuration string, _ admissionv1.MutatingWebhook) {
	everything := admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.OperationAll},
		Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
	}
	h := testenv.Mutating(testenv.Hook(e.backend, observerPath, everything))
	h.NamespaceSelector, h.FailurePolicy = nil, new(admissionv1.Ignore)
	return c.prefix + "-0-sentinel", h
}

const observerPath = "/observer"

// record is what the API server returned beside the answer of a request.
type record struct {
	mu          sync.Mutex
	warnings    []string
	annotations []string
}

type recordKey struct{}

// recording notes the warnings and annotations of responses to requests whose context
// has a record.
type recording struct{ http.RoundTripper }

func (r recording) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.RoundTripper.RoundTrip(request)
	notes, recorded := request.Context().Value(recordKey{}).(*record)
	if err != nil || !recorded {
		return response, err
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(body))
	var object metav1.PartialObjectMetadata
	_ = json.Unmarshal(body, &object) // else it is no object
	notes.mu.Lock()
	defer notes.mu.Unlock()
	notes.warnings = append(notes.warnings, response.Header.Values("Warning")...)
	notes.annotations = slices.AppendSeq(notes.annotations, maps.Keys(object.Annotations))
	return response, err
}

// recorded is the environment with clients that keep records.
func recorded(t *testing.T, w environment) environment {
	t.Helper()
	env, config := *w.Env, w.Plane.Config()
	config.ContentType = runtime.ContentTypeJSON
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return recording{rt} })
	var err error
	env.Kube, err = kubernetes.NewForConfig(config)
	testenv.Must(t, err)
	env.Dynamic, err = dynamic.NewForConfig(config)
	testenv.Must(t, err)
	return environment{&env}
}

// evaluated is what a request showed of the policies of the round: those that
// validate by policy and binding, those that mutate by policy.
type evaluated struct {
	validating map[evaluation]bool
	mutating   map[string]bool
	// observed says that the object was seen after the mutating policies.
	observed bool
}

type evaluation struct{ policy, binding string }

var policyWarning = regexp.MustCompile(`Validation failed for ValidatingAdmissionPolicy '([^']+)' with binding '([^']+)'`)

// evaluatedPolicies reads the record of a request, and what the observer saw of it.
func (e explainer) evaluatedPolicies(c *configurations, q request, notes *record) evaluated {
	out := evaluated{map[evaluation]bool{}, map[string]bool{}, q.operation == "create" && strings.HasPrefix(q.resource, "validatingwebhook")}
	for _, warning := range notes.warnings {
		if found := policyWarning.FindStringSubmatch(warning); found != nil && strings.HasPrefix(found[1], c.prefix) {
			out.validating[evaluation{found[1], found[2]}] = true
		}
	}
	annotations := slices.Clone(notes.annotations)
	for _, call := range e.Hooks.CallsOf(observerPath) {
		if call.DryRun { // else it is a connection, or another client's
			out.observed = true
			annotations = append(annotations, strings.Fields(call.Annotations)...)
		}
	}
	for _, p := range c.policies {
		if slices.Contains(annotations, p.annotation()) {
			out.mutating[p.name] = true
		}
	}
	return out
}

// predictedPolicy is a policy, by one binding or by all, that is evaluated, or may be.
type predictedPolicy struct {
	evaluation
	certain bool
}

func (p prediction) unexpected(got evaluated) string {
	predicted := func(policy, binding string) bool {
		return slices.ContainsFunc(p.policies, func(s predictedPolicy) bool {
			return s.policy == policy && (s.binding == "" || binding == "" || s.binding == binding)
		})
	}
	for e := range got.validating {
		if !predicted(e.policy, e.binding) {
			return fmt.Sprintf("policy %s was evaluated by binding %s", e.policy, e.binding)
		}
	}
	for name := range got.mutating {
		if !predicted(name, "") {
			return fmt.Sprintf("policy %s was evaluated", name)
		}
	}
	return ""
}

func (c *configurations) missed(p prediction, got evaluated) string {
	for _, s := range p.policies {
		i := slices.IndexFunc(c.policies, func(p policy) bool { return p.name == s.policy })
		switch which := c.policies[i]; {
		case !s.certain || which.silent:
		case which.mutating && p.versions: // the version that comes last is kept, if it can be
		case which.mutating && got.observed && !got.mutating[s.policy], !which.mutating && !got.validating[s.evaluation]:
			return fmt.Sprintf("policy %s was not evaluated by binding %s", s.policy, s.binding)
		}
	}
	return ""
}

// countPolicies counts the policies of a request that the auditor was asked about.
func (t *tally) countPolicies(p prediction, got evaluated) {
	if t.policies == nil {
		t.policies = map[string]int{}
	}
	for _, s := range p.policies {
		seen := got.validating[s.evaluation] || got.mutating[s.policy]
		switch {
		case s.certain && seen:
			t.policies["evaluated"]++
		case s.certain:
			t.policies["not to be seen"]++
		case seen:
			t.policies["maybe, evaluated"]++
		default:
			t.policies["maybe, not evaluated"]++
		}
	}
	for why, n := range p.policiesWhy {
		t.policies["skipped: "+why] += n
	}
	t.mutations += len(got.mutating)
}

// listed counts by words, in their order.
func listed(counts map[string]int) string {
	var out []string
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("%d %s", counts[word], word))
	}
	return strings.Join(out, ", ")
}
