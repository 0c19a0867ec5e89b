package explain

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// The tests in this file hold what "audit" says an API server does against the API server:
// generated registrations around a check, each for a resource of its own, real requests to
// all of these, and each claim compared. FUZZ=3000 makes so many registrations, some thirty a round.

// subject is what a round registers for one resource, to be compared with what became of the
// requests to it. A twin is selected as it is, and shows by which requests.
type subject struct {
	check, name string
	kind        explained
	objects     []any
	hooks       []claimedHook
	crd         *claimedCRD
	// mutating says that its policy is.
	mutating bool
	compare  func(*subject, []testenv.ReportedFinding, []probe) verdict
}

type claimedHook struct {
	mutating bool
	admissionv1.ValidatingWebhook
	reinvocation admissionv1.ReinvocationPolicyType
}

type probe struct {
	namespace string
	err       error
	warned    []string // policies
	paths     []string // webhooks
}

// verdict is what is wrong with the findings, and whether one is missing.
type verdict struct {
	wrong []string
	// missed is what no finding says, silent what one at least should.
	missed, silent string
}

type claimTally struct{ registrations, claims, wrong, silent int }

func TestClaimsHold(t *testing.T) {
	t.Parallel()
	wanted, seed := fuzzed(t)
	if _, set := os.LookupEnv("FUZZ"); !set {
		wanted = 20
	}
	r := rand.New(rand.NewPCG(7, seed))
	e := newExplainer(t, environment{stock.UseAlone(t)}, "v"+programs.Release())
	for _, k := range claimedKinds { // else its requests end before they meet all webhooks
		_, err := e.client(k, "explain-a").Create(t.Context(), k.object("exp-long", "explain-a"), metav1.CreateOptions{DryRun: dryRun})
		testenv.Must(t, err)
	}
	total := map[string]*claimTally{}
	for made, round := 0, 0; made < wanted; round++ {
		made += e.claims(t, r, round, total)
		for _, check := range slices.Sorted(maps.Keys(total)) { // each round: "go test -v" shows it of a run that is cut off
			t.Logf("seed %d, round %d: %s: %+v", seed, round, check, *total[check])
		}
	}
	for check, n := range total {
		if n.claims == 0 && wanted >= 1000 {
			t.Errorf("%s claims nothing", check)
		}
	}
}

// claims registers a subject for each kind, makes requests and compares.
func (e explainer) claims(t *testing.T, r *rand.Rand, round int, total map[string]*claimTally) int {
	t.Helper()
	c := &configurations{prefix: fmt.Sprintf("claims-%04d", round)}
	subjects := e.subjects(r, c.prefix)
	for _, s := range subjects {
		e.create(t, c, s.objects)
		e.createHooks(t, c, s)
		if s.crd != nil {
			e.createCRD(t, c, s)
		}
	}
	e.awaitAll(t, e.sentinels(t, c), e.registerPolicies(t, c))
	document, _ := testenv.Report(t, "--kubeconfig="+e.Plane.Kubeconfig())
	e.Hooks.Forget()
	probes := make([][]probe, len(subjects))
	var asked sync.WaitGroup
	for i, s := range subjects {
		asked.Go(func() { probes[i] = e.probes(t.Context(), s) })
	}
	asked.Wait()
	for i, s := range subjects {
		findings := slices.DeleteFunc(slices.Clone(document.Findings), func(f testenv.ReportedFinding) bool {
			return f.Check != s.check || !strings.HasPrefix(f.Configuration, s.name)
		})
		v := s.compare(s, findings, probes[i])
		if total[s.check] == nil {
			total[s.check] = &claimTally{}
		}
		n := total[s.check]
		n.registrations++
		n.claims += len(findings)
		n.wrong += len(v.wrong)
		for _, problem := range v.wrong {
			t.Errorf("%s of %s: %s\n%s\n%v", s.check, s.kind.resource, problem, s.text(), findings)
		}
		if len(findings) == 0 && !s.mayPass() {
			v.missed = cmp.Or(v.missed, v.silent)
		}
		if v.missed != "" {
			n.silent++
			t.Errorf("%s of %s is silent: %s\n%s", s.check, s.kind.resource, v.missed, s.text())
		}
	}
	c.unregister(t)
	return len(subjects)
}

func written(object any) string {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err) // unreachable: they are types of the API
	}
	return string(text)
}

func (s *subject) text() string {
	var out []string
	if s.crd != nil {
		out = append(out, fmt.Sprintf("%+v", *s.crd))
	}
	for _, o := range s.objects {
		out = append(out, written(o))
	}
	for _, h := range s.hooks {
		out = append(out, fmt.Sprintf("mutating %t, %s", h.mutating, written(h.ValidatingWebhook)))
	}
	return strings.Join(out, "\n")
}

// mayPass reports whether an expression fails for some objects, which the probes need not show.
func (s *subject) mayPass() bool {
	return slices.ContainsFunc(mayFail, func(e string) bool { return strings.Contains(s.text(), strings.Trim(written(e), `"`)) })
}

// subjects are one for each kind: no request meets what another subject refuses.
func (e explainer) subjects(r *rand.Rand, prefix string) []*subject {
	makers := []func(*rand.Rand, *subject){chainSubject, expressionSubject, conditionSubject, chainSubject, expressionSubject, conditionSubject, paramKindSubject}
	var out []*subject
	add := func(k explained) *subject {
		// The labels of Jobs and ReplicationControllers without any are those of their template.
		k.manifest = strings.Replace(k.manifest, "labels: {app: a}", `labels: {x: "1"}`, 1)
		s := &subject{name: fmt.Sprintf("%s-%02d", prefix, len(out)), kind: k}
		out = append(out, s)
		return s
	}
	shared := slices.DeleteFunc(slices.Clone(explainedKinds), func(k explained) bool {
		return !slices.Contains([]string{"pods", "services", "secrets", "serviceaccounts", "deployments.apps", "jobs.batch", "replicationcontrollers"}, k.resource)
	})
	first := r.IntN(len(makers))
	for i, k := range slices.Concat(shared, claimedKinds) {
		s := add(k)
		makers[(i+first)%len(makers)](r, s)
		if e.mutates && s.check == "policy-expression" && (k.resource == "pods" || r.IntN(3) == 0) {
			s.mutates(somethingThatFails(r))
		}
	}
	for _, resource := range []string{"pods/eviction", "pods/binding", "serviceaccounts/token", "deployments.apps/scale"} {
		switch {
		case resource == "deployments.apps/scale" && r.IntN(2) == 0:
			replicasSubject(r, add(explained{resource: resource}))
		case e.mutates:
			e.applySubject(r, add(explained{resource: resource}))
		}
	}
	for range 3 {
		e.conversionSubject(r, add(explained{}))
	}
	return out
}

// rule is for the creation of the subject's kind.
func (s *subject) rule() admissionv1.RuleWithOperations {
	name, sub, isSub := strings.Cut(s.kind.resource, "/")
	name, group, _ := strings.Cut(name, ".")
	if isSub {
		name += "/" + sub
	}
	out := testenv.Rule(group, name)
	out.Operations = []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}
	return out
}

// claimedSelector selects by what the probes have, in whichever writing.
func claimedSelector(r *rand.Rand, namespaces bool) *metav1.LabelSelector {
	texts := []string{"", "", "", "app=a", "app in (a)", "app", "app notin (b)", "app in (a,b)", "!app", "app=b", "tier=a", "app=a,tier", "app in (a,c),app notin (c)", "app notin (a)", "!tier", "app notin (a),tier"}
	if namespaces {
		texts = []string{"", "", "", "", "kubernetes.io/metadata.name=explain-a", "kubernetes.io/metadata.name in (explain-b)", "tier", "tier=a", "app notin (a)", "kubernetes.io/metadata.name notin (explain-a)"}
	}
	selector, err := metav1.ParseToLabelSelector(pick(r, texts...))
	if err != nil {
		panic(err) // a mistake in the table above
	}
	return selector
}

// match narrows to what it names, and the names of others.
func (s *subject) match(r *rand.Rand) admissionv1.MatchResources {
	out := admissionv1.MatchResources{NamespaceSelector: claimedSelector(r, true), ObjectSelector: claimedSelector(r, false)}
	rule := admissionv1.NamedRuleWithOperations{RuleWithOperations: s.rule(), ResourceNames: pick(r, nil, nil, nil, []string{"exp"}, []string{"ex"}, []string{"other"})}
	out.ResourceRules = []admissionv1.NamedRuleWithOperations{rule}
	if r.IntN(5) == 0 {
		excluded := admissionv1.NamedRuleWithOperations{RuleWithOperations: s.rule(), ResourceNames: pick(r, []string{"exp"}, []string{"exp-long"})}
		out.ExcludeResourceRules = []admissionv1.NamedRuleWithOperations{excluded}
	}
	return out
}

func (s *subject) twin(match admissionv1.MatchResources, bound *admissionv1.MatchResources) policy {
	return policy{
		name: s.name + "-twin", failure: admissionv1.Ignore, match: match,
		bindings: []policyBinding{{name: s.name + "-twin", match: bound, actions: []admissionv1.ValidationAction{admissionv1.Warn}}},
	}
}

// alwaysFail are expressions that fail for every creation, the others for some or none.
var (
	alwaysFail = []string{`request.subResource == "x"`, `1 / 0 == 1`, `oldObject.metadata.name == "x"`, `["a"][3] == "a"`, `request.subResource.startsWith("x") && true`, `object.zz == "x"`, `object.metadata.zz.size() == 0`}
	mayFail    = []string{`object.metadata.labels["tier"] == "a"`, `request.name == "exp"`}
	neverFail  = []string{`true`, `has(object.metadata)`, `!has(request.subResource)`, `oldObject == null`, `request.userInfo.username != "alice"`}
	neverTrue  = []string{`request.userInfo.username == "alice"`, `object.?metadata.?labels[?"app"].orValue("") == "z"`, `request.operation == "DELETE"`}
)

func somethingThatFails(r *rand.Rand) string {
	return pick(r, pick(r, alwaysFail, alwaysFail, mayFail, neverFail)...)
}

func expressionSubject(r *rand.Rand, s *subject) {
	s.check = "policy-expression"
	match := s.match(r)
	p := policy{name: s.name, failure: pick(r, admissionv1.Fail, admissionv1.Fail, admissionv1.Ignore), match: match}
	bound := pick(r, nil, nil, &admissionv1.MatchResources{NamespaceSelector: claimedSelector(r, true)}, new(s.match(r)))
	var params *admissionv1.ParamRef
	if r.IntN(4) == 0 {
		p.params, params = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}, someParams(r)
	}
	p.bindings = []policyBinding{{name: s.name, match: bound, params: params, actions: pick(r, []admissionv1.ValidationAction{admissionv1.Deny}, []admissionv1.ValidationAction{admissionv1.Deny, admissionv1.Audit}, []admissionv1.ValidationAction{admissionv1.Audit})}}
	if r.IntN(3) == 0 {
		p.conditions = []admissionv1.MatchCondition{{Name: "c0", Expression: pick(r, pick(r, neverFail, neverTrue, mayFail, alwaysFail)...)}}
	}
	objects := p.objects()
	spec := &objects[0].(*admissionv1.ValidatingAdmissionPolicy).Spec
	spec.Validations = []admissionv1.Validation{{Expression: somethingThatFails(r)}}
	if r.IntN(3) == 0 {
		spec.Variables = []admissionv1.Variable{{Name: "v", Expression: pick(r, `request.subResource`, `request.?subResource.orValue("")`, `object.metadata.name`)}}
		spec.Validations = append(spec.Validations, admissionv1.Validation{Expression: pick(r, `variables.v != "x"`, `true`)})
	}
	twin := s.twin(match, bound)
	twin.params, twin.bindings[0].params = p.params, params
	s.objects = append(objects, twin.objects()...)
	s.compare = func(s *subject, findings []testenv.ReportedFinding, probes []probe) verdict {
		failed := func(p probe) bool {
			return p.refused("'"+s.name+"'", "resulted in error") || s.mutating && p.refused(s.name, "denied request")
		}
		// What a mutation refuses shows no warnings; of several validations, the first that refuses is named.
		evaluated := slices.DeleteFunc(probes, func(p probe) bool {
			return !failed(p) && (!slices.Contains(p.warned, s.name+"-twin") || p.refused("'"+s.name+"'", "failed expression"))
		})
		return compareFindings(findings, evaluated, evaluated, failed)
	}
}

// mutates makes the validating policy of the subject, its first object, a mutating one, whose
// mutation evaluates the expression.
func (s *subject) mutates(expression string) {
	was, binding := s.objects[0].(*admissionv1.ValidatingAdmissionPolicy), s.objects[1].(*admissionv1.ValidatingAdmissionPolicyBinding)
	s.mutating = true
	p := policy{name: s.name, mutating: true, failure: *was.Spec.FailurePolicy, reinvocation: admissionv1.NeverReinvocationPolicy, match: *was.Spec.MatchConstraints, conditions: was.Spec.MatchConditions, params: was.Spec.ParamKind}
	p.bindings = []policyBinding{{name: s.name, match: binding.Spec.MatchResources, params: binding.Spec.ParamRef}}
	made := p.objects()
	spec := &made[0].(*admissionv1.MutatingAdmissionPolicy).Spec
	spec.Variables = was.Spec.Variables
	if s.kind.resource == "pods" && len(expression)%2 == 0 { // an applyConfiguration of what is atomic, or not
		spec.Mutations[0] = admissionv1.Mutation{PatchType: admissionv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: appliedField(len(expression))}}
		s.objects = append(made, s.objects[2:]...)
		return
	}
	spec.Mutations[0].JSONPatch.Expression = fmt.Sprintf(`(%s) ? (%s) : []`, expression, addAnnotation(p.annotation()))
	if s.kind.resource == "pods" { // a whole struct
		spec.Mutations[0].JSONPatch.Expression = fmt.Sprintf(`(%s) ? [JSONPatch{op: "add", path: "/spec/securityContext", value: Object.spec.securityContext{runAsNonRoot: true}},
JSONPatch{op: "add", path: "/spec/tolerations", value: [Object.spec.tolerations{key: "a", operator: "Exists"}]}] : []`, expression)
	}
	s.objects = append(made, s.objects[2:]...)
}

// appliedField sets a field of Pods, some of which are atomic.
func appliedField(number int) string {
	fields := []string{
		`tolerations: [Object.spec.tolerations{key: "a", operator: "Exists"}]`, `nodeSelector: {"a": "b"}`, `terminationGracePeriodSeconds: 5`,
		`containers: [Object.spec.containers{name: "c", args: ["a"]}]`, `containers: [Object.spec.containers{name: "c", imagePullPolicy: "Always"}]`,
		`containers: [Object.spec.containers{name: "c", env: [Object.spec.containers.env{name: "A", valueFrom: Object.spec.containers.env.valueFrom{fieldRef: Object.spec.containers.env.valueFrom.fieldRef{fieldPath: "metadata.name"}}}]}]`,
		`containers: [Object.spec.containers{name: "c", env: [Object.spec.containers.env{name: "A", value: "a"}]}]`,
		`hostAliases: [Object.spec.hostAliases{ip: "192.0.2.1", hostnames: ["a"]}]`,
		`topologySpreadConstraints: [Object.spec.topologySpreadConstraints{maxSkew: 1, topologyKey: "a", whenUnsatisfiable: "ScheduleAnyway", labelSelector: Object.spec.topologySpreadConstraints.labelSelector{matchLabels: {"a": "b"}}}]`,
		`dnsConfig: Object.spec.dnsConfig{searches: ["a.example.com"]}`, `securityContext: Object.spec.securityContext{supplementalGroups: [1]}`,
	}
	return "Object{spec: Object.spec{" + fields[number/2%len(fields)] + "}}"
}

// replicasSubject is a policy on the replicas of Deployments, which is asked about their scale
// or not.
func replicasSubject(r *rand.Rand, s *subject) {
	s.check = "subresource-gap"
	match := admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: testenv.Rule("apps", "deployments")}}}
	match.ResourceRules[0].Operations = []admissionv1.OperationType{admissionv1.Update}
	match.ResourceRules[0].Resources = pick(r, []string{"deployments"}, []string{"deployments"}, []string{"deployments/scale"}, []string{"deployments", "deployments/scale"}, []string{"deployments", "deployments/*"}, []string{"deployments", "deployments/status"})
	p := policy{name: s.name, failure: admissionv1.Fail, match: match, bindings: []policyBinding{{name: s.name, actions: []admissionv1.ValidationAction{admissionv1.Deny}}}}
	s.objects = p.objects()
	s.objects[0].(*admissionv1.ValidatingAdmissionPolicy).Spec.Validations = []admissionv1.Validation{{Expression: pick(r, `object.spec.replicas > 1000`, `object.?spec.?replicas.orValue(0) > 1000`)}}
	s.compare = func(s *subject, findings []testenv.ReportedFinding, probes []probe) verdict {
		var out verdict
		passes := slices.ContainsFunc(probes, func(p probe) bool { return !p.refused("'" + s.name + "'") })
		switch asked := match.ResourceRules[0].Resources[0] == "deployments"; {
		case !passes && len(findings) > 0:
			out.wrong = append(out.wrong, "replicas are not set past it")
		case passes && asked:
			out.silent = "replicas are set past it"
		}
		return out
	}
}

// compareFindings compares findings that say "refuses" of every request, or of those that are let
// through, unless they say what else may decide.
func compareFindings(findings []testenv.ReportedFinding, all, selected []probe, refused func(probe) bool) verdict {
	var out verdict
	for _, f := range findings {
		of := all
		if strings.Contains(f.Message, " that its ") {
			of = selected
		}
		if !strings.Contains(f.Message, "CREATE") && !strings.Contains(f.Message, "atomic") {
			continue
		}
		refuses := strings.Contains(f.Message, "refuses") && !strings.Contains(f.Message, "unless a")
		if i := slices.IndexFunc(of, func(p probe) bool { return !refused(p) }); i >= 0 && refuses {
			out.wrong = append(out.wrong, fmt.Sprintf("passes in %s: %v", of[i].namespace, of[i].err))
		}
		if strings.Contains(f.Message, "is let through") || strings.Contains(f.Message, "lets the request pass") {
			if i := slices.IndexFunc(of, refused); i >= 0 {
				out.wrong = append(out.wrong, fmt.Sprintf("refused: %v", of[i].err))
			}
		}
	}
	if len(selected) > 0 && !slices.ContainsFunc(selected, func(p probe) bool { return !refused(p) }) {
		out.silent = fmt.Sprintf("%d of %d requests are refused: %v", len(selected), len(all), selected[0].err)
	}
	return out
}

func (p probe) refused(words ...string) bool {
	for _, word := range words {
		if p.err == nil || !strings.Contains(p.err.Error(), word) {
			return false
		}
	}
	return true
}

func conditionSubject(r *rand.Rand, s *subject) {
	s.check = "failing-match-condition"
	h := s.hook("main", r)
	h.MatchConditions = []admissionv1.MatchCondition{{Name: "c0", Expression: somethingThatFails(r)}}
	if r.IntN(3) == 0 {
		h.MatchConditions = append(h.MatchConditions, admissionv1.MatchCondition{Name: "c1", Expression: pick(r, pick(r, neverFail, neverTrue)...)})
	}
	h.FailurePolicy = new(pick(r, admissionv1.Fail, admissionv1.Fail, admissionv1.Ignore))
	twin := h.ValidatingWebhook
	twin.Name = "twin." + s.name + ".example.com"
	twin.ClientConfig.Service = h.ClientConfig.Service.DeepCopy()
	twin.ClientConfig.Service.Path, twin.MatchConditions, twin.FailurePolicy = new("/"+twin.Name), nil, new(admissionv1.Ignore)
	s.hooks = []claimedHook{{true, twin, admissionv1.NeverReinvocationPolicy}, h}
	s.compare = func(s *subject, findings []testenv.ReportedFinding, probes []probe) verdict {
		selected := slices.DeleteFunc(slices.Clone(probes), func(p probe) bool { return !slices.Contains(p.paths, "/twin."+s.name+".example.com") })
		v := compareFindings(findings, probes, selected, func(p probe) bool { return p.refused("resulted in error") })
		for _, p := range probes {
			if called := slices.Contains(p.paths, "/main."+s.name+".example.com"); called && len(findings) > 0 && !strings.Contains(findings[0].Message, "unless") {
				v.wrong = append(v.wrong, "it is called in "+p.namespace)
			}
		}
		return v
	}
}

// hook is called for the subject, and has its path by its name.
func (s *subject) hook(name string, r *rand.Rand) claimedHook {
	name += "." + s.name + ".example.com"
	h := claimedHook{mutating: r.IntN(2) == 0, reinvocation: pick(r, admissionv1.NeverReinvocationPolicy, admissionv1.IfNeededReinvocationPolicy)}
	h.Name, h.NamespaceSelector, h.ObjectSelector = name, claimedSelector(r, true), claimedSelector(r, false)
	h.ClientConfig.Service = &admissionv1.ServiceReference{Path: new("/" + name)}
	h.Rules, h.FailurePolicy, h.SideEffects, h.AdmissionReviewVersions = []admissionv1.RuleWithOperations{s.rule()}, new(admissionv1.Ignore), new(admissionv1.SideEffectClassNone), []string{"v1"}
	return h
}

func paramKindSubject(r *rand.Rand, s *subject) {
	s.check = "param-kind-missing"
	match := s.match(r)
	p := policy{name: s.name, failure: pick(r, admissionv1.Fail, admissionv1.Fail, admissionv1.Ignore), match: match, params: &admissionv1.ParamKind{APIVersion: "explain.example.com/v1", Kind: "Missing"}}
	p.bindings = []policyBinding{{name: s.name, match: pick(r, nil, &admissionv1.MatchResources{NamespaceSelector: claimedSelector(r, true)}), actions: pick(r, []admissionv1.ValidationAction{admissionv1.Deny}, []admissionv1.ValidationAction{admissionv1.Warn})}}
	if r.IntN(2) == 0 {
		p.conditions = []admissionv1.MatchCondition{{Name: "c0", Expression: pick(r, pick(r, neverFail, neverTrue)...)}}
	}
	s.objects = append(p.objects(), s.twin(match, nil).objects()...)
	s.compare = func(s *subject, findings []testenv.ReportedFinding, probes []probe) verdict {
		refused := func(p probe) bool {
			return p.refused("'"+s.name+"'", "failed to find resource referenced by paramKind")
		}
		// What is refused shows no warnings: the twin says of those that pass alone.
		selected := slices.DeleteFunc(slices.Clone(probes), func(p probe) bool { return !refused(p) && !slices.Contains(p.warned, s.name+"-twin") })
		return compareFindings(findings, probes, selected, refused)
	}
}

// chainSubject is compared by the webhooks that requests meet, and what these may take
// together: none of them hangs.
func chainSubject(r *rand.Rand, s *subject) {
	s.check = "chain-outlasts-request"
	for i := range 1 + r.IntN(6) {
		h := s.hook(fmt.Sprint("hook-", i), r)
		h.TimeoutSeconds = new(pick(r, int32(5), 10, 12, 18, 20, 30))
		s.hooks = append(s.hooks, h)
	}
	s.compare = checkChain
}

var inNamespaces = regexp.MustCompile(`^in namespaces? (.+?) those to `)

var outlasts = regexp.MustCompile(`(?: in namespace (\S+?))?(?: meets)?: .*refused after 34 s of (\S+ s) \(`)

// checkChain wants a finding on each mutating webhook of a request that can be outlasted, and on
// the slowest validating ones of its namespace; and of each finding a request that meets its
// webhook and takes so long.
func checkChain(s *subject, findings []testenv.ReportedFinding, probes []probe) verdict {
	var out verdict
	met := map[string]bool{} // "WEBHOOK NAMESPACE SECONDS", and of any namespace
	slowest := map[string]time.Duration{}
	var failed []error // none of a webhook: a request that did not get there
	for _, p := range probes {
		if p.err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.namespace, p.err))
		}
		_, validating := s.total(p)
		slowest[p.namespace] = max(slowest[p.namespace], validating)
	}
	for _, p := range probes {
		total, _ := s.total(p)
		for _, h := range s.hooks {
			if !slices.Contains(p.paths, "/"+h.Name) {
				continue
			}
			met[fmt.Sprintf("%s %s %s", h.Name, p.namespace, total)], met[fmt.Sprintf("%s  %s", h.Name, total)] = true, true
			found := slices.ContainsFunc(findings, func(f testenv.ReportedFinding) bool { return f.Name == h.Name })
			if total >= 34*time.Second && !found && (h.mutating || seconds(h) == slowest[p.namespace]) {
				out.missed = fmt.Sprintf("a request in %s may take %s, by %v, and %s is not named", p.namespace, total, p.paths, h.Name)
			}
		}
	}
	for _, f := range findings {
		m := outlasts.FindStringSubmatch(f.Message)
		if m == nil {
			out.wrong = append(out.wrong, "not read: "+f.Message)
			continue
		}
		if _, probed := explainedNamespaces[m[1]]; !probed { // one as explain-c is
			m[1] = ""
		}
		if total, err := time.ParseDuration(strings.ReplaceAll(m[2], " ", "")); err != nil || !met[fmt.Sprintf("%s %s %s", f.Name, m[1], total)] {
			out.wrong = append(out.wrong, fmt.Sprintf("%q: none of its requests takes so long: %v %v", f.Message, slices.Sorted(maps.Keys(met)), failed))
		}
	}
	return out
}

func seconds(h claimedHook) time.Duration { return time.Duration(*h.TimeoutSeconds) * time.Second }

// total is what the webhooks of the probe take at most, each called once, with the observer
// of all requests, and slowest what its validating ones do, which are called at once.
func (s *subject) total(p probe) (total, slowest time.Duration) {
	total = 10 * time.Second
	for _, h := range s.hooks {
		switch {
		case !slices.Contains(p.paths, "/"+h.Name):
		case h.mutating:
			total += seconds(h)
		default:
			slowest = max(slowest, seconds(h))
		}
	}
	return total + slowest, slowest
}

// someParams are there, or not, by name or by labels.
func someParams(r *rand.Rand) *admissionv1.ParamRef {
	out := &admissionv1.ParamRef{Namespace: "explain-a", ParameterNotFoundAction: new(pick(r, admissionv1.AllowAction, admissionv1.DenyAction))}
	if out.Name = pick(r, "exp", "exp", "none", ""); out.Name == "" {
		out.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(r, "a", "none")}}
	}
	return out
}

func (e explainer) applySubject(r *rand.Rand, s *subject) {
	s.check = "apply-without-type"
	p := policy{name: s.name, mutating: true, applies: true, failure: pick(r, admissionv1.Fail, admissionv1.Fail, admissionv1.Fail, admissionv1.Ignore), reinvocation: admissionv1.NeverReinvocationPolicy, match: s.match(r)}
	b := policyBinding{name: s.name, match: pick(r, nil, nil, &admissionv1.MatchResources{NamespaceSelector: claimedSelector(r, true)})}
	switch r.IntN(6) {
	case 0:
		p.conditions = []admissionv1.MatchCondition{{Name: "c0", Expression: pick(r, `request.userInfo.username == "bob"`, `request.userInfo.username != "bob"`, `has(object.metadata.labels)`, `request.namespace == "explain-a"`, `true`)}}
	case 1:
		p.params = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
		b.params = someParams(r)
	}
	p.bindings = []policyBinding{b}
	s.objects = p.objects()
	s.compare = func(s *subject, findings []testenv.ReportedFinding, probes []probe) verdict {
		refused := func(p probe) bool { return p.refused(s.name, "no corresponding type") }
		var out verdict
		for _, f := range findings {
			_, requests, _ := strings.Cut(f.Message, "refuses ")
			scope := func(p probe) bool { return strings.HasPrefix(requests, "all requests to ") }
			if m := inNamespaces.FindStringSubmatch(requests); m != nil {
				scope = func(p probe) bool {
					return slices.Contains(regexp.MustCompile(`[\w-]+`).FindAllString(m[1], -1), p.namespace)
				}
			}
			i := slices.IndexFunc(probes, func(p probe) bool { return requests != "" && scope(p) && !refused(p) })
			if i >= 0 {
				out.wrong = append(out.wrong, fmt.Sprintf("passes in %s: %v", probes[i].namespace, probes[i].err))
			}
			if f.Severity == "critical" && !slices.ContainsFunc(probes, refused) {
				out.wrong = append(out.wrong, "critical, and nothing is refused")
			}
		}
		if i := slices.IndexFunc(probes, refused); i >= 0 {
			out.silent = probes[i].err.Error()
		}
		return out
	}
}

// createHooks registers the webhooks of a subject in its two configurations.
func (e explainer) createHooks(t *testing.T, c *configurations, s *subject) {
	t.Helper()
	m, v := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: s.name}}, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	for _, h := range s.hooks {
		h.ClientConfig = e.backend.Admission(*h.ClientConfig.Service.Path)
		if !h.mutating {
			v.Webhooks = append(v.Webhooks, h.ValidatingWebhook)
			continue
		}
		one := testenv.Mutating(h.ValidatingWebhook)
		one.ObjectSelector, one.MatchConditions, one.ReinvocationPolicy = h.ObjectSelector, h.MatchConditions, &h.reinvocation
		m.Webhooks = append(m.Webhooks, one)
	}
	ctx, api := context.Background(), e.Kube.AdmissionregistrationV1()
	if len(m.Webhooks) > 0 {
		testenv.Get(api.MutatingWebhookConfigurations().Create(ctx, m, metav1.CreateOptions{}))(t)
		c.removes(t, func() error { return api.MutatingWebhookConfigurations().Delete(ctx, s.name, metav1.DeleteOptions{}) })
	}
	if len(v.Webhooks) > 0 {
		testenv.Get(api.ValidatingWebhookConfigurations().Create(ctx, v, metav1.CreateOptions{}))(t)
		c.removes(t, func() error { return api.ValidatingWebhookConfigurations().Delete(ctx, s.name, metav1.DeleteOptions{}) })
	}
}

func (e explainer) called(s *subject) map[string]int {
	out := map[string]int{}
	for _, call := range e.Hooks.Calls() {
		if (call.DryRun || call.Operation == "CONVERT") && strings.Contains(call.Path, s.name) {
			out[call.Path]++
		}
	}
	return out
}

// probes makes requests of all labels, in all namespaces. No other subject's have its webhooks.
func (e explainer) probes(ctx context.Context, s *subject) []probe {
	if s.crd != nil {
		return e.convertedProbes(ctx, s)
	}
	var out []probe
	for _, namespace := range slices.Sorted(maps.Keys(explainedNamespaces)) {
		for i, labels := range []map[string]string{nil, {"app": "a"}, {"app": "b"}, {"app": "c"}, {"tier": "a"}, {"app": "a", "tier": "a"}, {"app": "b", "tier": "a"}, {"app": "c", "tier": "a"}} {
			before, notes := e.called(s), &record{}
			out = append(out, probe{namespace: namespace, err: e.probe(context.WithValue(ctx, recordKey{}, notes), s, namespace, labels, i)})
			p := &out[len(out)-1]
			for _, warning := range notes.warnings {
				if m := policyWarning.FindStringSubmatch(warning); m != nil {
					p.warned = append(p.warned, m[1])
				}
			}
			for path, n := range e.called(s) {
				if n > before[path] {
					p.paths = append(p.paths, path)
				}
			}
		}
	}
	return out
}

// probe creates an object of the kind, every other time under a name that is generated or
// begins as another; or makes a request to the subresource.
func (e explainer) probe(ctx context.Context, s *subject, namespace string, labels map[string]string, number int) error {
	metadata := `{name: exp, labels: ` + written(labels) + `}`
	switch s.kind.resource {
	case "pods/binding":
		return e.post(namespace, s.kind.resource, `{apiVersion: v1, kind: Binding, metadata: `+metadata+`, target: {kind: Node, name: exp}}`).do(ctx)
	case "pods/eviction":
		return e.post(namespace, s.kind.resource, `{apiVersion: policy/v1, kind: Eviction, metadata: `+metadata+`, deleteOptions: {dryRun: [All]}}`).do(ctx)
	case "serviceaccounts/token":
		return e.post(namespace, s.kind.resource, `{apiVersion: authentication.k8s.io/v1, kind: TokenRequest, metadata: `+metadata+`, spec: {audiences: [a]}}`).do(ctx)
	case "deployments.apps/scale":
		return e.scale(namespace, "deployments.apps", "update").do(ctx)
	}
	object := s.kind.object([]string{"exp-long", "other"}[number%2], namespace)
	object.SetLabels(labels)
	if number%3 == 2 {
		object.SetName("")
		object.SetGenerateName("exp")
	}
	_, err := e.client(s.kind, namespace).Create(ctx, object, metav1.CreateOptions{DryRun: dryRun})
	return err
}
