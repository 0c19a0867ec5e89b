package admission

import (
	"context"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	plugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/namespace"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/object"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// reference decides as the API server does, by its own matchers: one request at a
// time, of which everything is known.
type reference struct {
	oracle
	namespaces *namespace.Matcher
	compiler   plugin.ConditionCompiler
	// allows is what the authorizer says to everything.
	allows authorizer.Decision
}

func newReference(s *inventory.Snapshot) *reference {
	lister := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, n := range s.Namespaces {
		// An error is impossible: the key function knows the type.
		_ = lister.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}})
	}
	return &reference{
		oracle:     newOracle(s),
		namespaces: &namespace.Matcher{NamespaceLister: corelisters.NewNamespaceLister(lister)},
		compiler:   plugin.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())),
	}
}

// Authorize answers expressions that use the authorizer.
func (j *reference) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return j.allows, "", nil
}

// Its answers: whether a webhook is called, or the request refused
// instead.
const (
	called  = "called"
	skipped = "skipped"
	refused = "refused"
)

// registered is a webhook as the upstream matchers take it.
type registered struct{ *inventory.Webhook }

func (w registered) GetParsedNamespaceSelector() (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(w.NamespaceSelector.Raw)
}

func (w registered) GetParsedObjectSelector() (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(w.ObjectSelector.Raw)
}

func (j *reference) decide(w *inventory.Webhook, attr admission.Attributes) string {
	if rules.IsExemptAdmissionConfigurationResource(attr) || j.snapshot.ReviewsExcluded && slices.Contains(excludedReviews, inventory.Resource{Group: attr.GetResource().Group, Name: attr.GetResource().Resource}) {
		return skipped
	}
	inNamespace, err := j.namespaces.MatchNamespaceSelector(registered{w}, attr)
	onObject, _ := (&object.Matcher{}).MatchObjectSelector(registered{w}, attr)
	kind := j.kind(w, attr)
	switch {
	case err != nil:
		return refused
	case !inNamespace || !onObject || kind.Empty():
		return skipped
	}
	return j.conditions(&w.Registration, attr, kind)
}

// kind is that in which the webhook gets the object; empty where no rule
// covers it.
func (j *reference) kind(w *inventory.Webhook, attr admission.Attributes) schema.GroupVersionKind {
	if matches(w.Rules, attr) {
		return attr.GetKind()
	}
	if w.MatchPolicy == admissionv1.Exact {
		return schema.GroupVersionKind{}
	}
	for _, rule := range w.Rules {
		for _, other := range j.registry.EquivalentResourcesFor(attr.GetResource(), attr.GetSubresource()) {
			if matches([]admissionv1.RuleWithOperations{rule}, elsewhere{attr, other}) {
				return j.registry.KindFor(other, attr.GetSubresource())
			}
		}
	}
	return schema.GroupVersionKind{}
}

// elsewhere is a request as if it were to an equivalent resource.
type elsewhere struct {
	admission.Attributes
	resource schema.GroupVersionResource
}

func (e elsewhere) GetResource() schema.GroupVersionResource { return e.resource }

func (j *reference) conditions(w *inventory.Registration, attr admission.Attributes, kind schema.GroupVersionKind) string {
	var expressions []plugin.ExpressionAccessor
	for _, c := range w.MatchConditions {
		expressions = append(expressions, (*matchconditions.MatchCondition)(&c))
	}
	evaluator := j.compiler.CompileCondition(expressions, plugin.OptionalVariableDeclarations{HasAuthorizer: true}, environment.StoredExpressions)
	request := &admission.VersionedAttributes{Attributes: attr, VersionedKind: kind}
	if o := attr.GetObject(); o != nil {
		request.VersionedObject.Set(o)
	}
	if o := attr.GetOldObject(); o != nil {
		request.VersionedOldObject.Set(o)
	}
	result := matchconditions.NewMatcher(evaluator, &w.FailurePolicy, "webhook", string(w.Type), w.Name).Match(context.Background(), request, nil, j)
	switch {
	case result.Error != nil:
		return refused
	case result.Matches:
		return called
	}
	return skipped
}

// complete makes up what is unknown of a request.
func complete(r *rand.Rand, q Request, v apiVersion) admission.Attributes {
	name, objectLabels := q.Name, q.objectLabels.values
	if name == "" {
		name = pick(r, "", "pod", "web-0")
	}
	if !q.objectLabels.complete {
		objectLabels = someLabels(r)
	}
	sent := &unstructured.Unstructured{Object: map[string]any{}}
	sent.SetGroupVersionKind(groupVersionKind(v.Kind))
	sent.SetName(name)
	sent.SetNamespace(q.Namespace)
	sent.SetLabels(objectLabels)
	if q.Resource.IsNamespaces() {
		sent.SetLabels(withNameLabel(labelSet{values: objectLabels}, name).values)
	}
	if r.IntN(2) == 0 {
		sent.SetAnnotations(map[string]string{"skip": pick(r, "true", "false")})
	}
	where := q.Namespace
	if q.namespaceUnknown {
		where = pick(r, "default", "kube-system", "team-a", "team-b")
	}
	var now, before runtime.Object
	switch q.Operation {
	case Create:
		now = sent
	case Update:
		now, before = sent, sent.DeepCopy()
	case Delete:
		before = sent
	case Connect:
		now = &corev1.PodExecOptions{}
	}
	who := &user.DefaultInfo{Name: pick(r, "alice", "system:admin"), Groups: [][]string{nil, {"system:masters"}, {"dev"}}[r.IntN(3)]}
	return admission.NewAttributesRecord(now, before, groupVersionKind(v.Kind), where, name, gvr(v.Resource, v.Version), v.Subresource, admission.Operation(q.Operation), nil, r.IntN(2) == 0, who)
}

func groupVersionKind(k Kind) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
}

func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

// someLabels are any of those that the generated selectors ask for.
func someLabels(r *rand.Rand) map[string]string {
	out := map[string]string{}
	for _, key := range []string{"app", "tier"} {
		if value := pick(r, "", "a", "b", "other"); value != "" {
			out[key] = value
		}
	}
	return out
}

// selectorOf is the selector of a registered webhook.
func selectorOf(raw *metav1.LabelSelector) inventory.Selector {
	o := inventory.Objects{
		Discovered: []inventory.Served{},
		Validating: []*admissionv1.ValidatingWebhookConfiguration{validating("a", func(w *admissionv1.ValidatingWebhook) { w.NamespaceSelector = raw })},
	}
	return o.Snapshot(time.Time{}).Webhooks[0].NamespaceSelector
}

func someSelector(r *rand.Rand) inventory.Selector {
	if r.IntN(2) == 0 {
		return selectorOf(nil)
	}
	raw := &metav1.LabelSelector{}
	if r.IntN(3) == 0 {
		raw.MatchLabels = map[string]string{pick(r, "app", "tier"): pick(r, "a", "b")}
	}
	for range r.IntN(3) {
		e := metav1.LabelSelectorRequirement{Key: pick(r, "app", "tier", corev1.LabelMetadataName), Operator: pick(r, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}
		if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpNotIn {
			e.Values = some(r, []string{"a", "b", "default", "kube-system", "team-a"})
		}
		raw.MatchExpressions = append(raw.MatchExpressions, e)
	}
	return selectorOf(raw)
}

//go:embed testdata/expressions.txt
var expressions string

// The atoms of generated expressions: those that a request alone decides, and all.
var (
	decided = expressionsOf("What a request alone decides")
	atoms   = slices.Concat(decided, decided, expressionsOf("What needs more"), expressionsOf("What does not compile"))
)

// expressionsOf are those under the heading.
func expressionsOf(heading string) []string {
	_, after, isFound := strings.Cut(expressions, "# "+heading+".\n")
	if !isFound {
		panic("testdata/expressions.txt has no heading " + heading)
	}
	list, _, _ := strings.Cut(after, "\n#")
	return strings.Split(strings.TrimSpace(list), "\n")
}

func someExpression(r *rand.Rand, atoms []string, depth int) string {
	if depth == 0 || r.IntN(3) == 0 {
		return "(" + pick(r, atoms...) + ")"
	}
	a, b := someExpression(r, atoms, depth-1), someExpression(r, atoms, depth-1)
	switch r.IntN(4) {
	case 0:
		return "!" + a
	case 1:
		return fmt.Sprintf("(%s && %s)", a, b)
	case 2:
		return fmt.Sprintf("(%s || %s)", a, b)
	}
	return fmt.Sprintf("(%s ? %s : %s)", a, b, someExpression(r, atoms, depth-1))
}

func someConditions(r *rand.Rand, atoms []string) []admissionv1.MatchCondition {
	var out []admissionv1.MatchCondition
	for i := range r.IntN(3) {
		out = append(out, admissionv1.MatchCondition{Name: fmt.Sprint("c", i), Expression: someExpression(r, atoms, 2)})
	}
	return out
}

// worlds are two servers with four namespaces, before and after reviews were
// excluded.
func worlds() []*Matcher {
	var out []*Matcher
	for _, minor := range []int{36, 37} {
		out = append(out, New(inventory.Objects{
			Cluster: inventory.Cluster{Server: inventory.Version{Major: 1, Minor: minor}},
			CRDs:    []*apiextensionsv1.CustomResourceDefinition{widgets()},
			Namespaces: []*metav1.PartialObjectMetadata{
				newNamespace("default", nil), newNamespace("kube-system", nil),
				newNamespace("team-a", map[string]string{"tier": "a"}),
				newNamespace("team-b", map[string]string{"tier": "b", "app": "a"}),
			},
		}.Snapshot(time.Time{})))
	}
	return out
}

func newNamespace(name string, set map[string]string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: withNameLabel(labelSet{values: set}, name).values}}
}

func someWebhook(r *rand.Rand) *inventory.Webhook {
	w := generated(r)
	if r.IntN(3) > 0 { // else hardly any request gets past the rules
		w.Rules[0].APIGroups, w.Rules[0].Resources = []string{"*"}, []string{"*/*"}
	}
	w.NamespaceSelector, w.ObjectSelector = someSelector(r), someSelector(r)
	w.FailurePolicy = pick(r, admissionv1.Fail, admissionv1.Ignore)
	return w
}

// someRequest is a request that the server serves, of which something may not
// be known.
func someRequest(r *rand.Rand, m *Matcher) (Request, apiVersion) {
	all := m.Snapshot.Served
	t := m.index.target(all[r.IntN(len(all))].Resource)
	for t.operations == 0 {
		t = m.index.target(all[r.IntN(len(all))].Resource)
	}
	versions := m.index.servedVersions(t.Resource)
	v, op := versions[r.IntN(len(versions))], pick(r, t.operations.List()...)
	subject := Subject{Name: pick(r, "", "pod")}
	if v.Namespaced {
		subject.Namespace = pick(r, "default", "kube-system", "team-a", "team-b")
	}
	if v.Resource.IsNamespaces() {
		subject.Name = pick(r, "default", "kube-system", "team-a", "team-b")
	}
	if r.IntN(2) == 0 {
		subject.Labels = someLabels(r)
	}
	return m.request(v, op, subject), v
}

// agrees holds a verdict against what the API server does with the request,
// whatever is true of what is unknown.
func agrees(v Verdict, decision string) bool {
	switch {
	case v.Match == Maybe:
		return true
	case v.Match == No:
		return decision == skipped
	case v.Refused:
		return decision == refused
	}
	return decision == called
}

// FuzzVerdictAgreesWithTheAPIServer holds verdicts against the API server's own
// code: rules, selectors and matchConditions.
func FuzzVerdictAgreesWithTheAPIServer(f *testing.F) {
	for seed := range uint64(500) {
		f.Add(seed)
	}
	matchers := worlds()
	references := []*reference{newReference(matchers[0].Snapshot), newReference(matchers[1].Snapshot)}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := someWebhook(r)
		w.MatchConditions = someConditions(r, atoms)
		for i, m := range matchers {
			matched, failing := matchedOf(m, w), failingOf(m, w)
			for range 20 {
				q, v := someRequest(r, m)
				verdict := q.Match(w)
				for range 4 {
					references[i].allows = pick(r, authorizer.DecisionAllow, authorizer.DecisionDeny)
					attr := complete(r, q, v)
					got := references[i].decide(w, attr)
					if !agrees(verdict, got) {
						t.Fatalf("%s: %+v, but the API server: %s\nrequest %+v in %s as %+v\nwebhook %s", m.Snapshot.Server, verdict, got, q, q.Namespace, attr.GetObject(), describe(w))
					}
					if got == called && !matched[q.Resource].Has(q.Operation) {
						t.Fatalf("%s: reach lacks %s %s\nwebhook %s", m.Snapshot.Server, q.Operation, q.Resource, describe(w))
					}
					if got == called && failing[q.Resource].Has(q.Operation) {
						t.Fatalf("%s: a matchCondition is reported to fail always, but the API server calls it for %s %s\nwebhook %s", m.Snapshot.Server, q.Operation, q.Resource, describe(w))
					}
				}
			}
		}
	})
}

func describe(w *inventory.Webhook) string {
	return fmt.Sprintf("%s %s rules %v namespaceSelector %s objectSelector %s conditions %v", w.FailurePolicy, w.MatchPolicy, w.Rules, w.NamespaceSelector, w.ObjectSelector, w.MatchConditions)
}

func matchedOf(m *Matcher, w *inventory.Webhook) map[inventory.Resource]Operations {
	out := map[inventory.Resource]Operations{}
	for _, r := range m.MatchedResources(w) {
		out[r.Resource] = r.Operations
	}
	return out
}

func failingOf(m *Matcher, w *inventory.Webhook) map[inventory.Resource]Operations {
	out := map[inventory.Resource]Operations{}
	for _, f := range m.FailingConditions(w) {
		out[f.Resource] |= f.Operations
	}
	return out
}

// TestVerdictIsCertainWhereTheRequestDecides: maybe is for what is unknown.
func TestVerdictIsCertainWhereTheRequestDecides(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	m := worlds()[1]
	// What the object is, the request decides only where it has none.
	atoms := slices.DeleteFunc(slices.Clone(decided), func(e string) bool { return e == `object == null` })
	asked := 0
	for range 5000 {
		w := someWebhook(r)
		w.MatchConditions = someConditions(r, atoms)
		q, _ := someRequest(r, m)
		if !q.objectLabels.complete || q.Kind.Unsure {
			continue
		}
		asked++
		if verdict := q.Match(w); verdict.Match == Maybe {
			t.Fatalf("%+v\nrequest %+v\nwebhook %s", verdict, q, describe(w))
		}
	}
	if asked < 1000 {
		t.Errorf("only %d requests were asked about", asked)
	}
}

// TestReachIsExactForSelectors tries every set of labels that the generated
// selectors distinguish.
func TestReachIsExactForSelectors(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	m := worlds()[1]
	everything := admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{"*"}, Rule: admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}}}
	for range 2000 {
		w := someWebhook(r)
		w.Rules = []admissionv1.RuleWithOperations{everything}
		pods := matchedOf(m, w)[inventory.Resource{Name: "pods"}]
		want := selectsSome(w.ObjectSelector, allLabels("", "a", "b", "default", "kube-system", "team-a", "other")) && selectsSome(w.NamespaceSelector, allLabels("a", "b", "default", "kube-system", "team-a", "other"))
		if pods.Has(Create) != want {
			t.Fatalf("pods reached: %v, want %v; %s", pods.List(), want, describe(w))
		}
	}
}

func selectsSome(s inventory.Selector, all []map[string]string) bool {
	return slices.ContainsFunc(all, func(l map[string]string) bool { return s.Parsed.Matches(labels.Set(l)) })
}

// allLabels are all sets of labels of namespaces with the names.
func allLabels(names ...string) []map[string]string {
	var out []map[string]string
	values := []string{"", "a", "b", "default", "kube-system", "team-a", "other"}
	for _, name := range names {
		for _, app := range values {
			for _, tier := range values {
				l := map[string]string{}
				for key, value := range map[string]string{"app": app, "tier": tier, corev1.LabelMetadataName: name} {
					if value != "" {
						l[key] = value
					}
				}
				out = append(out, l)
			}
		}
	}
	return out
}
