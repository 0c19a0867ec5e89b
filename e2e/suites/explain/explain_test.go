package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// The tests in this file hold what "explain" says against the API server
// itself: generated configurations of recording webhooks, real requests.

const (
	explainRounds   = 13 // configurations that are generated for each server
	explainRequests = 20 // requests to each
)

// explanation is what "explain -o json" prints.
type explanation struct {
	Chain []struct {
		Type, Configuration, Name, Called, Detail string
		Refuses                                   bool
	}
	Skipped []struct{ Type, Configuration, Name, Why string }
}

func TestExplainSaysWhatTheAPIServerDoes(t *testing.T) {
	t.Parallel()
	total := &tally{}
	t.Run("servers", func(t *testing.T) { // both at once, and done before the counts are compared
		for i, server := range []struct {
			name, version string
			server        *testenv.Shared
		}{{"stock", "v1.37", stock}, {"older", "v1.36", older}} {
			t.Run(server.name, func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(uint64(i), 1))
				e := newExplainer(t, environment{server.server.UseAlone(t)}, server.version)
				for round := range explainRounds {
					e.round(t, r, round, total)
				}
			})
		}
	})
	t.Logf("%d requests: %d webhooks called, %d again, %d that might have been were and %d were not, %d requests refused by a matchCondition, %d skipped: %v",
		total.cases, total.called, total.again, total.maybeCalled, total.maybeNot, total.refused, total.skipped, total.why)
	if total.cases < 500 || total.called < 1000 || total.skipped < 2000 || total.again == 0 || total.maybeCalled == 0 || total.maybeNot == 0 || total.refused == 0 {
		t.Error("the cases are too few, or too much alike, to show anything")
	}
}

// tally counts what the cases showed.
type tally struct {
	mu sync.Mutex

	cases, called, again, maybeCalled, maybeNot, refused, skipped int

	why map[string]int
}

// explainer asks the auditor and the API server the same.
type explainer struct {
	environment
	backend webhook.Backend
	version string
	binary  string
	requests
}

func newExplainer(t *testing.T, w environment, version string) explainer {
	t.Helper()
	return explainer{
		environment: w,
		backend:     w.Backend(t, "explain-hooks"),
		version:     version,
		binary:      testenv.Binary(t),
		requests:    w.explainedObjects(t),
	}
}

// round registers generated webhooks, makes requests and compares.
func (e explainer) round(t *testing.T, r *rand.Rand, round int, total *tally) {
	t.Helper()
	c := e.register(t, r, fmt.Sprintf("explain-%s-%02d", strings.ReplaceAll(e.version, ".", "-"), round))
	e.awaitAll(t, c)
	file := e.written(t, c)
	asked := make([]request, explainRequests)
	for i := range asked {
		asked[i] = e.pick(r)
	}
	answers := e.explain(t, asked, "--from="+file, "--server-version="+e.version)
	i := slices.IndexFunc(asked, func(q request) bool { return q.operation != "patch" || q.resource != "namespaces" }) // of which a cluster shows whether they exist
	offline := e.explain(t, asked[i:i+1], "--offline", "--kubeconfig="+e.Plane.Kubeconfig())[0]
	if a, b := fmt.Sprint(c.of(answers[i])), fmt.Sprint(c.of(offline)); a != b {
		t.Errorf("%s: of files explain says %s, of the cluster %s", asked[i], a, b)
	}
	live := e.explain(t, asked, "--kubeconfig="+e.Plane.Kubeconfig())
	for i, q := range asked {
		answer := answers[i]
		e.Hooks.Forget()
		err := q.do(t.Context())
		got := outcome{calledPaths(e.Hooks.Calls(), c.prefix), err}
		c.compare(t, q, c.of(answer), got, total)
		c.compare(t, q, c.of(live[i]), got, total)
	}
	for _, remove := range c.remove {
		testenv.Must(t, remove())
	}
}

// explain asks about the requests, one process for all.
func (e explainer) explain(t *testing.T, asked []request, where ...string) []explanation {
	t.Helper()
	var lines strings.Builder
	for _, q := range asked {
		fmt.Fprintln(&lines, q.operation, q.resource, strings.Join(q.args, " "))
	}
	result, err := auditor.Piped(t.Context(), strings.NewReader(lines.String()), e.binary, append([]string{"explain", "--requests=-", "-o=json"}, where...)...)
	testenv.Must(t, err)
	if result.Code != 0 {
		t.Fatalf("explain --requests: exit code %d: %s", result.Code, result.Stderr)
	}
	var out []explanation
	for d := json.NewDecoder(strings.NewReader(result.Stdout)); d.More(); {
		var one explanation
		testenv.Must(t, d.Decode(&one))
		out = append(out, one)
	}
	if len(out) != len(asked) {
		t.Fatalf("explain --requests: %d answers to %d requests", len(out), len(asked))
	}
	return out
}

// configurations are what one round registers.
type configurations struct {
	prefix     string
	mutating   []*admissionv1.MutatingWebhookConfiguration
	validating []*admissionv1.ValidatingWebhookConfiguration
	// again are the paths of the webhooks that may be called a second time.
	again map[string]bool
	// sentinels are called for a request that only asks whether the API server
	// knows all by now.
	sentinels []string
	remove    []func() error
}

// register creates the configurations, not in the order of their names.
func (e explainer) register(t *testing.T, r *rand.Rand, prefix string) *configurations {
	t.Helper()
	c := &configurations{prefix: prefix, again: map[string]bool{}}
	ctx, mutating, validating := context.Background(), e.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations(), e.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	for _, i := range r.Perm(8) {
		name := fmt.Sprintf("%s-%c", prefix, 'a'+i)
		m := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
		v := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for j := range 1 + r.IntN(2) {
			m.Webhooks = append(m.Webhooks, c.mutator(r, e.generated(r, name, j)))
			v.Webhooks = append(v.Webhooks, e.generated(r, name, j+2))
		}
		m, err := mutating.Create(ctx, m, metav1.CreateOptions{})
		testenv.Must(t, err)
		v, err = validating.Create(ctx, v, metav1.CreateOptions{})
		testenv.Must(t, err)
		c.mutating, c.validating = append(c.mutating, m), append(c.validating, v)
	}
	e.sentinels(t, c)
	for _, m := range c.mutating {
		c.removes(t, func() error { return mutating.Delete(ctx, m.Name, metav1.DeleteOptions{}) })
	}
	for _, v := range c.validating {
		c.removes(t, func() error { return validating.Delete(ctx, v.Name, metav1.DeleteOptions{}) })
	}
	return c
}

// removes deletes something at the end of the round, or of a test that failed
// before.
func (c *configurations) removes(t *testing.T, remove func() error) {
	c.remove = append(c.remove, remove)
	t.Cleanup(func() { testenv.Gone(t, remove()) })
}

// sentinels are created last: once they are called, so are all others.
func (e explainer) sentinels(t *testing.T, c *configurations) {
	t.Helper()
	h := testenv.Hook(e.backend, "/sentinel/"+c.prefix, testenv.Rule("", "configmaps"))
	h.ClientConfig = e.backend.Admission("/sentinel/" + c.prefix + "/validating")
	v := e.Validate(t, c.prefix+"-sentinel", h)
	h.ClientConfig = e.backend.Admission("/sentinel/" + c.prefix + "/mutating")
	m := e.Mutate(t, c.prefix+"-sentinel", testenv.Mutating(h))
	c.mutating, c.validating = append(c.mutating, m), append(c.validating, v)
	c.sentinels = []string{"/sentinel/" + c.prefix + "/validating", "/sentinel/" + c.prefix + "/mutating"}
}

func (e explainer) awaitAll(t *testing.T, c *configurations) {
	t.Helper()
	testenv.Eventually(t, func() error {
		e.Hooks.Forget()
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "sentinel-"}}
		if _, err := e.Kube.CoreV1().ConfigMaps(e.backend.Namespace).Create(t.Context(), object, metav1.CreateOptions{DryRun: dryRun}); err != nil {
			return err
		}
		for _, path := range c.sentinels {
			if len(e.Hooks.CallsOf(path)) == 0 {
				return fmt.Errorf("%s was not called", path)
			}
		}
		return nil
	})
}

// written puts what the auditor reads in the cluster into a file.
func (e explainer) written(t *testing.T, c *configurations) string {
	t.Helper()
	var items []any
	for _, m := range c.mutating {
		m.APIVersion, m.Kind = "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"
		items = append(items, m)
	}
	for _, v := range c.validating {
		v.APIVersion, v.Kind = "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"
		items = append(items, v)
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": append(items, e.context...)})
	testenv.Must(t, err)
	file := filepath.Join(t.TempDir(), c.prefix+".json")
	testenv.Must(t, os.WriteFile(file, text, 0o600))
	return file
}

// generated is a webhook with any rules, selectors and matchConditions. Its
// path is its name, by which its calls are recognized.
func (e explainer) generated(r *rand.Rand, configuration string, place int) admissionv1.ValidatingWebhook {
	name := fmt.Sprintf("hook-%d.%s.example.com", place, configuration)
	policies := []admissionv1.FailurePolicyType{admissionv1.Fail, admissionv1.Ignore}
	matching := []admissionv1.MatchPolicyType{admissionv1.Equivalent, admissionv1.Equivalent, admissionv1.Exact}
	h := admissionv1.ValidatingWebhook{
		Name:                    name,
		ClientConfig:            e.backend.Admission("/" + name),
		FailurePolicy:           &policies[r.IntN(2)],
		MatchPolicy:             &matching[r.IntN(3)],
		SideEffects:             new(admissionv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(30)),
		AdmissionReviewVersions: []string{"v1"},
		NamespaceSelector:       someSelector(r, 3),
		ObjectSelector:          someSelector(r, 4),
	}
	for range 1 + r.IntN(3) {
		h.Rules = append(h.Rules, someRule(r))
	}
	if r.IntN(3) == 0 {
		for i := range 1 + r.IntN(2) {
			// Where the sentinels are asked for, no condition may stand in their way.
			expression := fmt.Sprintf(`request.?namespace.orValue("") == %q || %s`, e.backend.Namespace, someExpression(r, 2))
			h.MatchConditions = append(h.MatchConditions, admissionv1.MatchCondition{Name: fmt.Sprintf("c%d", i), Expression: expression})
		}
	}
	return h
}

// mutator is a webhook that may be called again. Those for ConfigMaps alone
// change them, so that it comes to that.
func (c *configurations) mutator(r *rand.Rand, h admissionv1.ValidatingWebhook) admissionv1.MutatingWebhook {
	m := testenv.Mutating(h)
	m.ObjectSelector, m.MatchPolicy, m.MatchConditions = h.ObjectSelector, h.MatchPolicy, h.MatchConditions
	if r.IntN(2) == 0 {
		m.Rules = []admissionv1.RuleWithOperations{testenv.Rule("", "configmaps")}
		m.Rules[0].Operations = []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}
		m.ClientConfig.Service.Path = new("/patch/" + h.Name)
	}
	if r.IntN(2) == 0 {
		m.ReinvocationPolicy = new(admissionv1.IfNeededReinvocationPolicy)
		c.again[*m.ClientConfig.Service.Path] = true
	}
	return m
}

// of returns what an explanation says of this round's webhooks.
func (c *configurations) of(e explanation) prediction {
	p := prediction{why: map[string]int{}}
	for _, step := range e.Chain {
		if !strings.HasPrefix(step.Configuration, c.prefix) || strings.HasSuffix(step.Configuration, "-sentinel") {
			continue
		}
		s := predicted{c.path(step.Type, step.Name), step.Called == "yes"}
		p.refuses = p.refuses || step.Refuses
		p.doubtful = p.doubtful || step.Called == "maybe"
		switch {
		case step.Refuses:
		case step.Type == "admit":
			p.mutating = append(p.mutating, s)
		default:
			p.validating = append(p.validating, s)
		}
	}
	for _, step := range e.Skipped {
		if strings.HasPrefix(step.Configuration, c.prefix) {
			p.why[step.Why]++
		}
	}
	return p
}

// path finds the path of a webhook by its name.
func (c *configurations) path(kind, name string) string {
	for _, m := range c.mutating {
		for _, h := range m.Webhooks {
			if kind == "admit" && h.Name == name {
				return *h.ClientConfig.Service.Path
			}
		}
	}
	return "/" + name
}

// prediction is what explain says.
type prediction struct {
	mutating, validating []predicted
	// refuses says that a matchCondition refuses the request for certain;
	// where one is doubtful, it may fail as well.
	refuses, doubtful bool
	why               map[string]int
}

type predicted struct {
	path    string
	certain bool
}

// outcome is what the API server did: the webhooks it called, in order.
type outcome struct {
	paths []string
	err   error
}

// calledPaths are the webhooks of a round that our own request met: no other client
// makes dry runs, or connects to anything.
func calledPaths(calls []webhook.Call, prefix string) []string {
	var out []string
	for _, call := range calls {
		if strings.Contains(call.Path, "."+prefix) && (call.DryRun || call.Operation == "CONNECT") {
			out = append(out, call.Path)
		}
	}
	return out
}

func (c *configurations) compare(t *testing.T, q request, p prediction, got outcome, total *tally) {
	t.Helper()
	total.count(p, got)
	if problem := c.disagreement(p, got); problem != "" {
		t.Errorf("%s: %s\nsaid   %v, %v\ncalled %v\nerror %v\nregistered:\n%s", q, problem, p.mutating, p.validating, got.paths, got.err, c)
	}
}

// disagreement says in what the prediction and the outcome differ.
func (c *configurations) disagreement(p prediction, got outcome) string {
	expected := slices.Concat(p.mutating, p.validating)
	for _, path := range got.paths {
		if !slices.ContainsFunc(expected, func(s predicted) bool { return s.path == path }) {
			return path + " was called"
		}
	}
	switch {
	case refusedByCondition(got.err) && (p.refuses || p.doubtful):
		return ""
	case p.refuses:
		return "the request was not refused"
	case got.err != nil:
		return "the request failed"
	}
	for _, s := range expected {
		if s.certain && !slices.Contains(got.paths, s.path) {
			return s.path + " was not called"
		}
	}
	return c.disorder(p, got.paths)
}

// refusedByCondition distinguishes the error of a matchCondition from all others.
func refusedByCondition(err error) bool {
	return err != nil && strings.Contains(err.Error(), "resulted in error")
}

// disorder says in what the order of the calls differs: the mutating webhooks
// in the order of the chain, those that may be called again after them, then
// the validating ones in any order.
func (c *configurations) disorder(p prediction, paths []string) string {
	var first, again []string
	for i, path := range paths {
		mutating := slices.ContainsFunc(p.mutating, func(s predicted) bool { return s.path == path })
		switch {
		case mutating && slices.Contains(paths[:i], path):
			again = append(again, path)
			if !c.again[path] {
				return path + " was called again"
			}
		case mutating && len(first)+len(again) < i:
			return path + " was called after a validating webhook"
		case mutating:
			first = append(first, path)
		}
	}
	for _, round := range [][]string{first, again} {
		var order []string
		for _, s := range p.mutating {
			if slices.Contains(round, s.path) {
				order = append(order, s.path)
			}
		}
		if !slices.Equal(order, round) {
			return fmt.Sprintf("the mutating webhooks were called in the order %v", round)
		}
	}
	return ""
}

func (t *tally) count(p prediction, got outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cases++
	t.again += len(got.paths) - len(slices.Compact(slices.Sorted(slices.Values(got.paths))))
	if p.refuses {
		t.refused++
	}
	for _, s := range slices.Concat(p.mutating, p.validating) {
		switch called := slices.Contains(got.paths, s.path); {
		case called && s.certain:
			t.called++
		case called:
			t.maybeCalled++
		case !s.certain:
			t.maybeNot++
		}
	}
	if t.why == nil {
		t.why = map[string]int{}
	}
	for why, n := range p.why {
		t.why[why] += n
		t.skipped += n
	}
}

// String writes the configurations down, to repeat a case by hand.
func (c *configurations) String() string {
	var b strings.Builder
	for _, m := range c.mutating {
		for _, h := range m.Webhooks {
			fmt.Fprintf(&b, "  %s %s %s\n", describe(mutatingAsValidating(h)), *h.ReinvocationPolicy, *h.ClientConfig.Service.Path)
		}
	}
	for _, v := range c.validating {
		for _, h := range v.Webhooks {
			fmt.Fprintf(&b, "  %s\n", describe(h))
		}
	}
	return b.String()
}

func mutatingAsValidating(m admissionv1.MutatingWebhook) admissionv1.ValidatingWebhook {
	return admissionv1.ValidatingWebhook{Name: m.Name, Rules: m.Rules, FailurePolicy: m.FailurePolicy, MatchPolicy: m.MatchPolicy, NamespaceSelector: m.NamespaceSelector, ObjectSelector: m.ObjectSelector, MatchConditions: m.MatchConditions}
}

func describe(h admissionv1.ValidatingWebhook) string {
	var rules []string
	for _, r := range h.Rules {
		rules = append(rules, fmt.Sprintf("%v %v/%v %v %s", r.Operations, r.APIGroups, r.APIVersions, r.Resources, *r.Scope))
	}
	return fmt.Sprintf("%s %s %s %s namespaces %s objects %s conditions %v", h.Name, *h.FailurePolicy, *h.MatchPolicy, strings.Join(rules, "; "),
		metav1.FormatLabelSelector(h.NamespaceSelector), metav1.FormatLabelSelector(h.ObjectSelector), h.MatchConditions)
}

func someRule(r *rand.Rand) admissionv1.RuleWithOperations {
	type covered struct{ groups, versions, resources []string }
	everything := covered{[]string{"*"}, []string{"*"}, []string{"*/*"}}
	c := pick(
		r,
		everything, everything, everything, everything, everything, everything, everything, everything,
		covered{[]string{"*"}, []string{"*"}, []string{"*"}},
		covered{[]string{"*"}, []string{"*"}, []string{"*/status", "*/scale"}},
		covered{[]string{"*"}, []string{"v1"}, []string{"*/*"}},
		covered{[]string{""}, []string{"v1"}, []string{"pods/*"}},
		covered{[]string{""}, []string{"v1"}, []string{"pods", "configmaps", "namespaces", "nodes"}},
		covered{[]string{""}, []string{"*"}, []string{"pods/exec", "pods/binding", "pods/eviction", "serviceaccounts/token", "services/proxy"}},
		covered{[]string{"apps", "policy"}, []string{"v1"}, []string{"deployments", "deployments/scale"}},
		covered{[]string{"apps"}, []string{"v1beta1"}, []string{"*/*"}},
		covered{[]string{"events.k8s.io"}, []string{"v1"}, []string{"events"}},
		covered{[]string{""}, []string{"v1"}, []string{"events"}},
		covered{[]string{"autoscaling"}, []string{"v1"}, []string{"*"}},
		covered{[]string{"explain.example.com"}, []string{"v1"}, []string{"*/*"}},
		covered{[]string{"explain.example.com"}, []string{"v2", "v3"}, []string{"widgets", "widgets/status"}},
		covered{[]string{"explain.example.com"}, []string{"v3"}, []string{"widgets/*"}},
		covered{[]string{"authentication.k8s.io", "authorization.k8s.io"}, []string{"*"}, []string{"*"}},
		covered{[]string{"admissionregistration.k8s.io", "rbac.authorization.k8s.io"}, []string{"*"}, []string{"*"}},
	)
	operations := pick(r, []admissionv1.OperationType{"*"}, []admissionv1.OperationType{"*"}, []admissionv1.OperationType{"CREATE", "UPDATE"}, []admissionv1.OperationType{"DELETE", "CONNECT"}, []admissionv1.OperationType{"UPDATE"})
	scope := pick(r, admissionv1.AllScopes, admissionv1.AllScopes, admissionv1.NamespacedScope, admissionv1.ClusterScope)
	return admissionv1.RuleWithOperations{
		Operations: operations,
		Rule:       admissionv1.Rule{APIGroups: c.groups, APIVersions: c.versions, Resources: c.resources, Scope: &scope},
	}
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// someSelector is one in so many times a selector, else one of everything.
func someSelector(r *rand.Rand, one int) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	if r.IntN(one) > 0 {
		return s
	}
	if r.IntN(3) == 0 {
		s.MatchLabels = map[string]string{pick(r, "app", "tier"): pick(r, "a", "b")}
		return s
	}
	e := metav1.LabelSelectorRequirement{
		Key:      pick(r, "app", "tier", corev1.LabelMetadataName),
		Operator: pick(r, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist),
	}
	if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpNotIn {
		e.Values = pick(r, []string{"a"}, []string{"b"}, []string{"a", "explain-a"}, []string{"explain-b", "explain-c"}, []string{"kube-system", "explain-c"})
	}
	s.MatchExpressions = []metav1.LabelSelectorRequirement{e}
	return s
}

func someExpression(r *rand.Rand, depth int) string {
	if depth == 0 || r.IntN(3) == 0 {
		return "(" + pick(r, explainAtoms...) + ")"
	}
	a, b := someExpression(r, depth-1), someExpression(r, depth-1)
	return pick(r, "!"+a, "("+a+" && "+b+")", "("+a+" || "+b+")")
}

// explainAtoms are what generated expressions are made of. Those that can fail
// are rare, for a failure hides all else.
var explainAtoms = slices.Concat(slices.Repeat([]string{
	`request.resource.group == ""`,
	`request.resource.resource in ["pods", "configmaps", "widgets"]`,
	`request.resource.version == "v1"`,
	`request.requestResource.version == request.resource.version`,
	`request.operation == "CREATE"`,
	`request.operation != "DELETE"`,
	`request.?namespace.orValue("") == "explain-a"`,
	`has(request.namespace)`,
	`has(request.subResource)`,
	`request.?subResource.orValue("") in ["status", "scale", ""]`,
	`request.kind.kind in ["Pod", "Scale", "Widget", "Eviction"]`,
	`request.kind.group == "autoscaling"`,
	`request.kind.version == "v1"`,
	`request.requestKind.group == "policy"`,
	`oldObject == null`,
	`namespaceObject == null`,
	`["a", "b"].exists(x, request.?namespace.orValue("").endsWith(x))`,
	`request.?name.orValue("").startsWith("exp")`,
	`request.userInfo.username == "admin"`,
	`"system:masters" in request.userInfo.groups`,
	`request.dryRun`,
	`object != null && has(object.metadata) && has(object.metadata.labels)`,
	`object != null && object.metadata.?labels[?"app"].orValue("") == "a"`,
	`oldObject != null && oldObject.metadata.?labels[?"app"].orValue("") == "a"`,
	`object != null && object.?metadata.?namespace.orValue("") == "explain-a"`,
	`object != null && object.?metadata.?name.orValue("") == "exp"`,
	`object != null && has(object.metadata) && !has(object.metadata.deletionTimestamp)`,
	`object != null && has(object.metadata) && has(object.metadata.uid)`,
	`object != null && has(object.spec) && has(object.spec.hostNetwork)`,
	`object != null && has(object.spec)`,
	`object == null || object.kind in ["Pod", "ConfigMap", "Widget"]`,
	`object.?metadata.?labels[?"app"].orValue("") == "a"`,
	`authorizer.group("").resource("pods").check("get").allowed()`,
}, 2), slices.Repeat([]string{
	`1 / 0 == 1`,
	`request.namespace != "explain-a"`,
	`request.name == "exp"`,
	`object.metadata.name == "exp"`,
}, 3))
