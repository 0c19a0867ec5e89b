package classify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest/mixed"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var team, addBackend = mixed.Team, mixed.AddBackend

// crowd is a cluster of n webhooks of the worst kind for some analysis.
type crowd struct {
	name string
	// edit changes the i-th of n webhooks, which is called for Pods by a Service of its own
	// namespace; the cluster has one configuration each.
	edit func(w *admissionv1.ValidatingWebhook, i, n int)
	// around adds what the cluster has beside its webhooks.
	around func(o *inventory.Objects, n int)
	// together says that one configuration holds them all, converts that there are conversions alone.
	together, converts bool
}

// crowds are what makes a computation over several webhooks expensive.
var crowds = []crowd{
	{name: "all alike, one backend", edit: func(w *admissionv1.ValidatingWebhook, _, _ int) {
		w.ClientConfig = kubetest.Client("policy", "policy")
	}, around: namespaces(1)},
	{name: "all alike, every backend its own Service", around: withBackends},
	{name: "all alike, every backend its own Service of one namespace", edit: inOneNamespace, around: withBackendsInOne},
	{name: "all different", edit: func(w *admissionv1.ValidatingWebhook, i, _ int) {
		w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"key-" + team(i): "x"}}
		w.Rules = append(w.Rules, kubetest.Rule(team(i)+".example.com", "widgets", admissionv1.Create))
	}, around: withOwnCRDs},
	{name: "one cycle through all", edit: func(w *admissionv1.ValidatingWebhook, i, n int) {
		w.NamespaceSelector = byName(metav1.LabelSelectorOpIn, team((i+1)%n))
	}, around: withBackends},
	{name: "a chain through all", edit: func(w *admissionv1.ValidatingWebhook, i, _ int) { // the last refuses no Pods that there are
		w.NamespaceSelector = byName(metav1.LabelSelectorOpIn, team(i+1))
	}, around: withBackends},
	{name: "each excludes itself", edit: exceptItself, around: withBackends},
	{name: "each excludes itself by a matchCondition", edit: func(w *admissionv1.ValidatingWebhook, i, _ int) {
		w.MatchConditions = []admissionv1.MatchCondition{{Name: "others", Expression: fmt.Sprintf("request.namespace != %q", team(i))}}
	}, around: withBackends},
	{name: "one name for all", edit: oneName, around: namespaces(1)},
	{name: "one name in one configuration", edit: oneName, together: true},
	{name: "all Exact in one configuration", edit: func(w *admissionv1.ValidatingWebhook, i, n int) {
		catchAll(w, i, n)
		w.Rules[0].APIVersions, w.MatchPolicy = []string{"v1"}, new(admissionv1.Exact)
	}, together: true},
	{name: "conversions of one group", converts: true, around: conversions},
	{name: "nothing known"},
	{name: "everything known", edit: exceptItself, around: allKinds},
	{name: "backends of namespaces that are gone", edit: func(w *admissionv1.ValidatingWebhook, i, _ int) {
		w.ClientConfig = kubetest.Client("gone-"+team(i), "policy")
	}, around: withBackends},
	{name: "rules that reach nothing", edit: func(w *admissionv1.ValidatingWebhook, i, _ int) {
		w.Rules = []admissionv1.RuleWithOperations{kubetest.Rule("apps", team(i), admissionv1.Create)}
	}, around: withOwnCRDs},
	{name: "budgets that select all Pods of one namespace", edit: inOneNamespace, around: withBudgets},
	{name: "NetworkPolicies that select all Pods of one namespace", edit: inOneNamespace, around: withNetworkPolicies},
	{name: "as many admission policies", around: withPolicies},
	{name: "run level zero", around: runLevelZeros},
}

func inOneNamespace(w *admissionv1.ValidatingWebhook, i, _ int) {
	w.ClientConfig = kubetest.Client("policy", team(i))
}

func exceptItself(w *admissionv1.ValidatingWebhook, i, _ int) {
	w.NamespaceSelector = byName(metav1.LabelSelectorOpNotIn, team(i))
}

func oneName(w *admissionv1.ValidatingWebhook, _, _ int) { w.Name = "policy.example.com" }

func catchAll(w *admissionv1.ValidatingWebhook, _, _ int) {
	w.Rules[0].APIGroups, w.Rules[0].Resources = []string{"*"}, []string{"*/*"}
}

func crowdCalled(name string) crowd {
	return crowds[slices.IndexFunc(crowds, func(c crowd) bool { return c.name == name })]
}

func (s crowd) objects(n int) inventory.Objects {
	var o inventory.Objects
	if s.around != nil {
		s.around(&o, n)
	}
	var hooks []admissionv1.ValidatingWebhook
	for i := 0; i < n && !s.converts; i++ {
		w := hookOn(team(i), "policy", "", "pods")
		w.Name = fmt.Sprintf("hook-%05d.example.com", i)
		if s.edit != nil {
			s.edit(&w, i, n)
		}
		hooks = append(hooks, w)
		if !s.together {
			o.Validating = append(o.Validating, kubetest.Validating(fmt.Sprintf("policy-%05d", i), w))
		}
	}
	if s.together {
		o.Validating = append(o.Validating, kubetest.Validating("all", hooks...))
	}
	return o
}

func hookOn(namespace, service, group, resource string) admissionv1.ValidatingWebhook {
	return kubetest.Webhook("", kubetest.Client(namespace, service), kubetest.Rule(group, resource, admissionv1.Create, admissionv1.Update))
}

func byName(operator metav1.LabelSelectorOperator, names ...string) *metav1.LabelSelector {
	return kubetest.Selector(corev1.LabelMetadataName, operator, names...)
}

// known makes n namespaces, and says that all objects are known.
func namespaces(n int) func(*inventory.Objects, int) {
	return func(o *inventory.Objects, _ int) {
		o.NamespacesKnown, o.APIServicesKnown, o.ServicesKnown.All, o.EndpointsKnown.All = true, true, true, true
		for i := range n {
			addNamespace(o, team(i), nil)
		}
	}
}

func addNamespace(o *inventory.Objects, name string, labels map[string]string) {
	o.Namespaces = append(o.Namespaces, kubetest.Namespace(name, labels))
}

// withBackends gives each webhook a backend in a namespace of its own.
func withBackends(o *inventory.Objects, n int) {
	namespaces(n)(o, n)
	for i := range n {
		addBackend(o, team(i), "policy")
	}
}

func withBackendsInOne(o *inventory.Objects, n int) {
	namespaces(1)(o, n)
	addNamespace(o, "policy", nil)
	for i := range n {
		addBackend(o, "policy", team(i))
	}
}

func withOwnCRDs(o *inventory.Objects, n int) {
	withBackends(o, n)
	for i := range n {
		o.Namespaces[i].Labels = map[string]string{"key-" + team(i): "x"}
		o.CRDs = append(o.CRDs, kubetest.CRD(team(i)+".example.com", "widgets", "v1", "v2"))
	}
}

// conversions are n CRDs of one group, each with a conversion webhook.
func conversions(o *inventory.Objects, n int) {
	withBackends(o, n)
	for i := range n {
		c := kubetest.CRD("example.com", fmt.Sprintf("widgets%05d", i), "v1", "v2")
		c.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{
				ClientConfig:             &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: team(i), Name: "policy"}},
				ConversionReviewVersions: []string{"v1"},
			},
		}
		o.CRDs = append(o.CRDs, c)
	}
}

// allKinds is all that an Objects can hold: Pods, CRDs, and DaemonSets that
// all nodes need.
func allKinds(o *inventory.Objects, n int) {
	withOwnCRDs(o, n)
	for i := range n {
		o.Namespaces[i].Labels["team"] = team(i / 10)
		o.Pods = append(o.Pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: team(i), Name: "node-agent", Labels: map[string]string{"agent": "x"},
				OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "node-agent", Controller: new(true)}},
			},
			Spec: corev1.PodSpec{PriorityClassName: "system-node-critical"},
		})
	}
}

// withBudgets gives each backend a PodDisruptionBudget that selects all of them.
func withBudgets(o *inventory.Objects, n int) {
	withBackendsInOne(o, n)
	for i := range n {
		o.DisruptionBudgets = append(o.DisruptionBudgets, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: team(i)},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
		})
	}
}

// withNetworkPolicies gives each backend a NetworkPolicy that selects all of them, the
// first of which opens as many ports.
func withNetworkPolicies(o *inventory.Objects, n int) {
	withBackendsInOne(o, n)
	for i := range n {
		o.NetworkPolicies = append(o.NetworkPolicies, &networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: team(i)},
			Spec:       networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}}}},
		})
		open := &o.NetworkPolicies[0].Spec.Ingress[0]
		open.From, open.Ports = nil, append(open.Ports, networkingv1.NetworkPolicyPort{Port: new(intstr.FromInt(2 * i))})
	}
}

// withPolicies are n admission policies on everything, each with a binding that denies.
func withPolicies(o *inventory.Objects, n int) {
	withBackends(o, n)
	for i := range n {
		addPolicy(o, team(i), fmt.Sprintf("request.name != 'policy-%d'", i))
	}
}

// addPolicy adds an admission policy with the matchCondition, and its binding.
func addPolicy(o *inventory.Objects, name, condition string) {
	policy := kubetest.Policy(name, kubetest.Rule("*", "*"))
	policy.Spec.MatchConditions = []admissionv1.MatchCondition{{Name: "some", Expression: condition}}
	o.ValidatingPolicies = append(slices.Clip(o.ValidatingPolicies), policy)
	o.ValidatingPolicyBindings = append(slices.Clip(o.ValidatingPolicyBindings), kubetest.Binding(name))
}

// runLevelZeros are n namespaces on run level 0.
func runLevelZeros(o *inventory.Objects, n int) {
	withBackends(o, n)
	for i := range n {
		o.Namespaces[i].Labels = map[string]string{"openshift.io/run-level": "0"}
	}
}

// TestGrowth: four times the webhooks cost about four times the steps and the
// memory, whatever their shape. What grew with the square would cost sixteen
// times as much.
func TestGrowth(t *testing.T) {
	const n, times, most = 100, 4, 6
	for _, c := range crowds {
		t.Run(c.name, func(t *testing.T) {
			steps, bytes := effort(t, DefaultPolicy(), c.objects(n).Snapshot(taken))
			moreSteps, moreBytes := effort(t, DefaultPolicy(), c.objects(times*n).Snapshot(taken))
			t.Logf("%d webhooks: %d steps, %d bytes; %d webhooks: %d steps, %d bytes", n, steps, bytes, times*n, moreSteps, moreBytes)
			if steps == 0 || moreSteps > most*steps {
				t.Errorf("%d times the webhooks take %d steps instead of %d", times, moreSteps, steps)
			}
			if moreBytes > most*bytes {
				t.Errorf("%d times the webhooks take %d bytes instead of %d", times, moreBytes, bytes)
			}
		})
	}
}

// effort counts what an evaluation takes, in steps and in bytes allocated. The
// Snapshot remembers answers, so that each is evaluated once only.
func effort(t *testing.T, policy Policy, s *inventory.Snapshot) (steps int, bytes uint64) {
	t.Helper()
	var before, after runtime.MemStats
	w := newWork(t.Context())
	runtime.ReadMemStats(&before)
	r, err := policy.evaluate(w, admission.New(s))
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Profiles) != len(s.Webhooks) || len(r.Profiles) == 0 {
		t.Fatalf("%d of %d webhooks are evaluated", len(r.Profiles), len(s.Webhooks))
	}
	return w.steps, after.TotalAlloc - before.TotalAlloc
}

// endsAfter is a context that ends after it was asked some times.
type endsAfter struct {
	context.Context
	left int
}

func (c *endsAfter) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestEndsAnywhere: wherever its context ends, an evaluation stops soon, with an
// error and nothing else.
func TestEndsAnywhere(t *testing.T) {
	t.Parallel()
	const n, points = 20, 25
	policy := DefaultPolicy()
	policy.Budgets = []Budget{{Resource: inventory.Resource{Name: "pods"}, Seconds: 1}}
	for _, c := range crowds {
		s := c.objects(n).Snapshot(taken)
		all := newWork(t.Context())
		must.Get(policy.evaluate(all, admission.New(s)))(t)
		for point := range points {
			at := all.steps * point / points
			w := &work{ctx: &endsAfter{t.Context(), at}, every: 1}
			r, err := policy.evaluate(w, admission.New(s))
			if most := at + 10*n; r != nil || !errors.Is(err, context.Canceled) || w.steps > most {
				t.Fatalf("%s: ended at step %d: %v, stopped at %d, want %d at most", c.name, at, err, w.steps, most)
			}
		}
	}
}

// CrowdSnapshot is that of n webhooks of the crowd.
func CrowdSnapshot(name string, n int) *inventory.Snapshot {
	return crowdCalled(name).objects(n).Snapshot(taken)
}

// MixedSnapshot is the same for each seed.
func MixedSnapshot(seed uint64) *inventory.Snapshot {
	return mixed.Cluster(rand.New(rand.NewPCG(seed, 0))).Snapshot(taken)
}
