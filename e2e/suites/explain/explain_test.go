package explain

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// The tests in this file hold what "explain" says against the API server
// itself: generated configurations of recording webhooks, real requests, each
// asked about with more and more knowledge of it. FUZZ=10000 makes so many
// requests, FUZZ_SEED=7 repeats those of a run that failed.

const explainRequests = 20 // requests to each of the generated configurations

// asIs is what "make e2e" asks: the same each time.
const asIs = 420

// explanation is what "explain -o json" prints.
type explanation struct {
	Chain []struct {
		Type, Configuration, Name, Binding, Called, Detail string
		Refuses                                            bool
	}
	Skipped []struct{ Type, Configuration, Name, Why string }
	Notes   []string
}

func TestExplainSaysWhatTheAPIServerDoes(t *testing.T) {
	t.Parallel()
	total := &tally{maybe: map[knowledge]int{}, certain: map[knowledge]int{}}
	wanted, seed := fuzzed(t)
	servers := []struct {
		name, version string
		server        *testenv.Shared
	}{{"stock", "v" + programs.Release(), stock}, {"emulating", "v1.36", emulating}, {"older", "v1.34", older}}
	if programs.Release() != programs.Newest { // that one alone
		servers = servers[:1]
	}
	done := t.Run("servers", func(t *testing.T) { // all at once, and done before the counts are compared
		for i, server := range servers {
			t.Run(server.name, func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(uint64(i), seed))
				e := newExplainer(t, environment{server.server.UseAlone(t)}, server.version)
				for round := range wanted / len(servers) / explainRequests {
					e.round(t, r, round, total)
				}
			})
		}
	})
	t.Logf("seed %d, %d requests: %d webhooks called, %d again, %d that might have been were and %d were not, %d requests refused by a matchCondition, %d skipped: %v",
		seed, total.cases, total.called, total.again, total.maybeCalled, total.maybeNot, total.refused, total.skipped, total.why)
	t.Logf("%d policies, %d times one changed an object: %s", total.registered, total.mutations, listed(total.policies))
	for _, k := range []knowledge{bare, byLabels, byObject, live} {
		t.Logf("%s: maybe in %.1f %% of what may be called", k, 100*float64(total.maybe[k])/float64(max(1, total.maybe[k]+total.certain[k])))
	}
	if done && (total.policies["evaluated"] < 150 || total.policies["maybe, evaluated"] == 0 || (total.mutations < 20) == testenv.MutatingPolicies.There(t) || total.cases < 400 || total.called < 1000 || total.skipped < 2000 || total.again == 0 || total.maybeCalled == 0 || total.maybeNot == 0 || total.refused == 0) {
		t.Error("the cases are too few, or too much alike, to show anything")
	}
}

// fuzzed returns how many requests to make, and what to make them up from.
func fuzzed(t *testing.T) (count int, seed uint64) {
	t.Helper()
	number := func(variable string, otherwise uint64) uint64 {
		text, ok := os.LookupEnv(variable)
		if !ok {
			return otherwise
		}
		n := testenv.Get(strconv.ParseUint(text, 10, 32))(t)
		return n
	}
	count, seed = int(number("FUZZ", asIs)), 1
	if count != asIs {
		seed = uint64(rand.Uint32())
	}
	return count, number("FUZZ_SEED", seed)
}

type tally struct {
	mu sync.Mutex

	cases, called, again, maybeCalled, maybeNot, refused, skipped int

	// maybe and certain count the webhooks that may be called, and are for certain.
	maybe, certain map[knowledge]int

	why map[string]int

	// registered counts policies, mutations what they changed, and policies what became
	// of those that requests met.
	registered, mutations int
	policies              map[string]int
}

type explainer struct {
	environment
	backend webhook.Backend
	version string
	// mutates says that the API server has MutatingAdmissionPolicies.
	mutates bool
	requests
}

func newExplainer(t *testing.T, w environment, version string) explainer {
	t.Helper()
	w = recorded(t, w)
	return explainer{
		environment: w,
		mutates:     version != "v1.34" && testenv.MutatingPolicies.There(t),
		backend:     w.Backend(t, "explain-hooks"),
		version:     version,
		requests:    w.explainedObjects(t),
	}
}

func (e explainer) round(t *testing.T, r *rand.Rand, round int, total *tally) {
	t.Helper()
	c := e.generate(r, fmt.Sprintf("explain-%s-%02d", strings.ReplaceAll(e.version, ".", "-"), round))
	e.register(t, c)
	total.register(c)
	asked := make([]request, explainRequests)
	for i := range asked {
		asked[i] = e.pick(r)
	}
	answers := map[knowledge][]explanation{}
	for _, k := range []knowledge{bare, byLabels, byObject, live} {
		answers[k] = e.explain(t, c, asked, k)
	}
	wrong := false
	offline := e.explain(t, c, asked, offline)
	for i, q := range asked {
		// A cluster shows which namespaces, kinds and params there are; a file may hold some of them.
		if a, b := fmt.Sprint(c.prediction(c.withoutParams(answers[byObject][i]))), fmt.Sprint(c.prediction(c.withoutParams(offline[i]))); a != b && q.resource != "namespaces" {
			t.Errorf("%s: of files explain says %s, of the cluster %s", q.line(t, byObject, t.TempDir()), a, b)
		}
		got := e.do(t, c, q)
		for k, answer := range answers {
			p := c.prediction(answer[i])
			total.count(k, p, got)
			if problem := c.disagreement(p, got); problem != "" {
				wrong = true
				t.Errorf("%s: %s (labels %v, object %s)", q.line(t, k, t.TempDir()), problem, q.labels, encoded(q.object))
			}
		}
	}
	if wrong {
		registered := testenv.Get(os.ReadFile(e.written(t, c)))(t)
		t.Logf("registered: %s", registered)
	}
	c.unregister(t)
}

func (e explainer) do(t *testing.T, c *configurations, q request) outcome {
	t.Helper()
	e.Hooks.Forget()
	notes := &record{}
	err := q.do(context.WithValue(t.Context(), recordKey{}, notes))
	return outcome{calledPaths(e.Hooks.Calls(), c.prefix), err, e.evaluatedPolicies(c, q, notes)}
}

// explain asks about the requests, one process for all.
func (e explainer) explain(t *testing.T, c *configurations, requests []request, k knowledge) []explanation {
	t.Helper()
	folder := t.TempDir()
	where := []string{"--from=" + e.written(t, c), "--server-version=" + e.version}
	switch k {
	case live: // as the user who makes the requests
		where = []string{"--kubeconfig=" + e.Plane.Kubeconfig(), "--as=admin", "--as-group=system:masters"}
	case offline:
		where = []string{"--kubeconfig=" + e.Plane.Kubeconfig(), "--offline"}
	}
	var lines strings.Builder
	for _, q := range requests {
		fmt.Fprintln(&lines, q.line(t, k, folder))
	}
	result := testenv.Get(auditor.Piped(t.Context(), strings.NewReader(lines.String()), testenv.Get(programs.Requests())(t), where...))(t)
	if result.Code != 0 {
		t.Fatalf("explain-requests: exit code %d: %s", result.Code, result.Stderr)
	}
	var out []explanation
	for d := json.NewDecoder(strings.NewReader(result.Stdout)); d.More(); {
		var one explanation
		testenv.Must(t, d.Decode(&one))
		out = append(out, one)
	}
	if len(out) != len(requests) {
		t.Fatalf("explain-requests: %d answers to %d requests", len(out), len(requests))
	}
	return out
}

type configurations struct {
	prefix   string
	hooks    []hook
	policies []policy
	// objects are what was registered.
	objects []any
	remove  []func() error
}

// hook is a webhook of a configuration: a mutating one has a reinvocationPolicy.
type hook struct {
	configuration string
	reinvocation  *admissionv1.ReinvocationPolicyType
	admissionv1.ValidatingWebhook
}

func (h hook) path() string { return *h.ClientConfig.Service.Path }

// generate makes configurations up, not in the order of their names.
func (e explainer) generate(r *rand.Rand, prefix string) *configurations {
	c := &configurations{prefix: prefix, policies: e.generatedPolicies(r, prefix)}
	for _, i := range r.Perm(8) {
		name := fmt.Sprintf("%s-%c", prefix, 'a'+i)
		for j := range 1 + r.IntN(2) {
			c.hooks = append(c.hooks, mutator(r, name, e.generated(r, name, j)), hook{name, nil, e.generated(r, name, j+2)})
		}
	}
	return c
}

func (e explainer) register(t *testing.T, c *configurations) {
	t.Helper()
	c.objects = nil
	ctx, mutating, validating := context.Background(), e.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations(), e.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	done := map[string]bool{}
	for _, first := range c.hooks {
		if name := first.configuration; !done[name] {
			done[name] = true
			m, v := c.configuration(name)
			made := testenv.Get(mutating.Create(ctx, m, metav1.CreateOptions{}))(t)
			made.APIVersion, made.Kind = "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"
			c.removes(t, func() error { return mutating.Delete(ctx, name, metav1.DeleteOptions{}) })
			also := testenv.Get(validating.Create(ctx, v, metav1.CreateOptions{}))(t)
			also.APIVersion, also.Kind = made.APIVersion, "ValidatingWebhookConfiguration"
			c.removes(t, func() error { return validating.Delete(ctx, name, metav1.DeleteOptions{}) })
			c.objects = append(c.objects, made, also)
		}
	}
	shown := e.registerPolicies(t, c)
	e.awaitAll(t, e.sentinels(t, c), shown)
}

func (c *configurations) configuration(name string) (*admissionv1.MutatingWebhookConfiguration, *admissionv1.ValidatingWebhookConfiguration) {
	m := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, h := range c.hooks {
		switch {
		case h.configuration != name:
		case h.reinvocation == nil:
			v.Webhooks = append(v.Webhooks, h.ValidatingWebhook)
		default:
			one := testenv.Mutating(h.ValidatingWebhook)
			one.ObjectSelector, one.MatchPolicy, one.MatchConditions, one.ReinvocationPolicy = h.ObjectSelector, h.MatchPolicy, h.MatchConditions, h.reinvocation
			m.Webhooks = append(m.Webhooks, one)
		}
	}
	return m, v
}

func (c *configurations) unregister(t *testing.T) {
	t.Helper()
	for _, remove := range c.remove {
		testenv.Must(t, remove())
	}
	c.remove = nil
}

// removes deletes something at the end of the round, or of a test that failed
// before.
func (c *configurations) removes(t *testing.T, remove func() error) {
	c.remove = append(c.remove, remove)
	t.Cleanup(func() { testenv.Gone(t, remove()) })
}

// sentinels are created last, under a name that was never used, and called only for
// a request that asks whether the API server knows all by now: once they are
// called, so are all others.
func (e explainer) sentinels(t *testing.T, c *configurations) (paths []string) {
	t.Helper()
	h := testenv.Hook(e.backend, "", testenv.Rule("", "configmaps"))
	sentinel := fmt.Sprintf("/sentinel/%d", time.Now().UnixNano())
	name, paths := c.prefix+"-sentinel", []string{sentinel + "/validating", sentinel + "/mutating"}
	h.ClientConfig = e.backend.Admission(paths[0])
	e.Validate(t, name, h)
	h.ClientConfig = e.backend.Admission(paths[1])
	e.Mutate(t, name, testenv.Mutating(h))
	first, observer := e.observer(c)
	e.Mutate(t, first, observer)
	c.removes(t, func() error {
		return e.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(context.Background(), first, metav1.DeleteOptions{})
	})
	c.removes(t, func() error {
		e.Unregister(t, name)
		return e.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	return paths
}

// awaitAll waits until the webhooks are called and the policies show themselves.
func (e explainer) awaitAll(t *testing.T, sentinels, policies []string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		e.Hooks.Forget()
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: sentinelName}}
		notes := &record{}
		if _, err := e.Kube.CoreV1().ConfigMaps(e.backend.Namespace).Create(context.WithValue(t.Context(), recordKey{}, notes), object, metav1.CreateOptions{DryRun: dryRun}); err != nil {
			return err
		}
		for _, path := range sentinels {
			if len(e.Hooks.CallsOf(path)) == 0 {
				return fmt.Errorf("%s was not called", path)
			}
		}
		for _, name := range policies {
			if !strings.Contains(fmt.Sprint(notes.warnings, e.Hooks.CallsOf(observerPath)), name) {
				return fmt.Errorf("policy %s was not evaluated", name)
			}
		}
		return nil
	})
}

// written puts what the auditor reads in the cluster into a file.
func (e explainer) written(t *testing.T, c *configurations) string {
	t.Helper()
	text := testenv.Get(json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": slices.Concat(c.objects, e.context)}))(t)
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
func mutator(r *rand.Rand, configuration string, h admissionv1.ValidatingWebhook) hook {
	if r.IntN(2) == 0 {
		h.Rules = []admissionv1.RuleWithOperations{testenv.Rule("", "configmaps")}
		h.Rules[0].Operations = []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}
		h.ClientConfig.Service.Path = new("/patch/" + h.Name)
	}
	return hook{configuration, new(pick(r, admissionv1.NeverReinvocationPolicy, admissionv1.IfNeededReinvocationPolicy)), h}
}

// prediction returns what an explanation says of this round's webhooks.
func (c *configurations) prediction(e explanation) prediction {
	p := prediction{why: map[string]int{}, policiesWhy: map[string]int{}}
	p.versions = slices.ContainsFunc(e.Notes, func(note string) bool { return strings.Contains(note, "in several versions") })
	for _, step := range e.Chain {
		if !strings.HasPrefix(step.Configuration, c.prefix) || strings.HasSuffix(step.Configuration, "-sentinel") {
			continue
		}
		p.refuses = p.refuses || step.Refuses
		p.doubtful = p.doubtful || step.Called == "maybe"
		switch certain := step.Called == "yes"; {
		case step.Refuses:
		case strings.HasSuffix(step.Type, "policy"):
			p.policies = append(p.policies, predictedPolicy{evaluation{step.Name, step.Binding}, certain})
		case step.Type == "mutating":
			p.mutating = append(p.mutating, predicted{c.path(step.Name), certain})
		default:
			p.validating = append(p.validating, predicted{c.path(step.Name), certain})
		}
	}
	for _, step := range e.Skipped {
		if strings.HasPrefix(step.Configuration, c.prefix) && !strings.HasSuffix(step.Configuration, "-sentinel") {
			if strings.HasSuffix(step.Type, "policy") {
				p.policiesWhy[step.Why]++
			} else {
				p.why[step.Why]++
			}
		}
	}
	return p
}

func (c *configurations) path(name string) string {
	i := slices.IndexFunc(c.hooks, func(h hook) bool { return h.Name == name })
	return c.hooks[i].path()
}

// reinvocable says whether the webhook of a path may be called again.
func (c *configurations) reinvocable(path string) bool {
	return slices.ContainsFunc(c.hooks, func(h hook) bool {
		return h.path() == path && h.reinvocation != nil && *h.reinvocation == admissionv1.IfNeededReinvocationPolicy
	})
}

type prediction struct {
	mutating, validating []predicted
	// refuses says that a matchCondition refuses the request for certain;
	// where one is doubtful, it may fail as well.
	refuses, doubtful bool
	// versions says that mutating policies meet the object in several.
	versions         bool
	policies         []predictedPolicy
	why, policiesWhy map[string]int
}

type predicted struct {
	path    string
	certain bool
}

// outcome is what the API server did: the webhooks it called, in order.
type outcome struct {
	paths []string
	err   error
	evaluated
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

// disagreement says in what the prediction and the outcome differ.
func (c *configurations) disagreement(p prediction, got outcome) string {
	expected := slices.Concat(p.mutating, p.validating)
	for _, path := range got.paths {
		if !slices.ContainsFunc(expected, func(s predicted) bool { return s.path == path }) {
			return path + " was called"
		}
	}
	if problem := p.unexpected(got.evaluated); problem != "" {
		return problem
	}
	switch {
	case refusedByCondition(got.err) && (p.refuses || p.doubtful):
		return ""
	case p.refuses:
		return "the request was not refused"
	case got.err != nil:
		return "the request failed: " + got.err.Error()
	}
	for _, s := range expected {
		if s.certain && !slices.Contains(got.paths, s.path) {
			return s.path + " was not called"
		}
	}
	if problem := c.missed(p, got.evaluated); problem != "" {
		return problem
	}
	return c.disorder(p, got.paths)
}

// refusedByCondition distinguishes the error of a matchCondition, or of what a
// policy needs, from all others.
func refusedByCondition(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "resulted in error") || strings.Contains(err.Error(), "failed to configure ") || strings.Contains(err.Error(), "no corresponding type for ") || strings.Contains(err.Error(), "There can be a delay between when CustomResourceDefinitions") ||
		strings.Contains(err.Error(), "request to convert CR to an invalid group/version") || strings.Contains(err.Error(), "unknown conversion") || strings.Contains(err.Error(), "is not suitable for converting to"))
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
			if !c.reinvocable(path) {
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

func (t *tally) register(c *configurations) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.registered += len(c.policies)
}

func (t *tally) count(k knowledge, p prediction, got outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range slices.Concat(p.mutating, p.validating) {
		if s.certain {
			t.certain[k]++
		} else {
			t.maybe[k]++
		}
	}
	if k != byLabels {
		return
	}
	t.cases++
	t.countPolicies(p, got.evaluated)
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

func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

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
// are rare, for a failure hides all else. None reads what the mutating webhooks here
// change, annotations: explain takes an object as it is written, and says so.
var explainAtoms = func() []string {
	usual, failing, isFound := strings.Cut(expressions, "\n\n")
	if !isFound {
		panic("testdata/expressions.txt has no empty line before those that fail")
	}
	return slices.Concat(slices.Repeat(strings.Split(usual, "\n"), 2), strings.Split(strings.TrimSpace(failing), "\n"))
}()

//go:embed testdata/expressions.txt
var expressions string
