package classify

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest/mixed"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/start"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

// pool are the objects of all fixtures: each check finds something in one.
func pool(t testing.TB) inventory.Objects {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < len(Checks) {
		t.Fatalf("%d fixtures: %v", len(files), err)
	}
	var out inventory.Objects
	for _, file := range files {
		o, _ := manifest.Read([]string{file}, manifest.Options{})
		out.Validating = append(out.Validating, o.Validating...)
		out.Mutating = append(out.Mutating, o.Mutating...)
		out.CRDs = append(out.CRDs, o.CRDs...)
		out.Services = append(out.Services, o.Services...)
		out.EndpointSlices = append(out.EndpointSlices, o.EndpointSlices...)
		out.Namespaces = append(out.Namespaces, o.Namespaces...)
		out.APIServices = append(out.APIServices, o.APIServices...)
		out.Pods = append(out.Pods, o.Pods...)
	}
	return out
}

// changingCluster is a cluster that changes at random, as a watch sees it: each change
// replaces an object, adds one or takes one away.
type changingCluster struct {
	*rand.Rand
	inventory.Objects
	pool  inventory.Objects
	taken time.Time
}

// replaced returns the list with one object of the pool in the place of that of the
// same name, or without one.
func replaced[T metav1.Object](r *rand.Rand, list, pool []T, clone func(T) T) []T {
	if len(pool) == 0 {
		return list
	}
	some := clone(pool[r.IntN(len(pool))])
	same := func(o T) bool { return o.GetName() == some.GetName() && o.GetNamespace() == some.GetNamespace() }
	out := slices.DeleteFunc(slices.Clone(list), same)
	if r.IntN(3) == 0 {
		return out
	}
	out = append(out, some)
	slices.SortFunc(out, func(a, b T) int {
		return inventory.Key{Namespace: a.GetNamespace(), Name: a.GetName()}.Compare(inventory.Key{Namespace: b.GetNamespace(), Name: b.GetName()})
	})
	return out
}

// step changes something.
func (c *changingCluster) step() string {
	switch c.IntN(14) {
	case 0, 1, 2:
		c.Validating = replaced(c.Rand, c.Validating, c.pool.Validating, (*admissionv1.ValidatingWebhookConfiguration).DeepCopy)
		return "a validating configuration"
	case 3, 4:
		c.Mutating = replaced(c.Rand, c.Mutating, c.pool.Mutating, (*admissionv1.MutatingWebhookConfiguration).DeepCopy)
		return "a mutating configuration"
	case 5:
		c.CRDs = replaced(c.Rand, c.CRDs, c.pool.CRDs, (*apiextensionsv1.CustomResourceDefinition).DeepCopy)
		return "a CRD"
	case 6:
		c.Services = replaced(c.Rand, c.Services, c.pool.Services, (*corev1.Service).DeepCopy)
		return "a Service"
	case 7:
		c.EndpointSlices = replaced(c.Rand, c.EndpointSlices, c.pool.EndpointSlices, func(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
			s = s.DeepCopy()
			for i := range s.Endpoints {
				s.Endpoints[i].Conditions.Ready = new(c.IntN(2) == 0)
				s.Endpoints[i].NodeName = new(fmt.Sprint("node-", c.IntN(2)))
			}
			return s
		})
		return "endpoints"
	case 8:
		c.Namespaces = replaced(c.Rand, c.Namespaces, c.pool.Namespaces, (*metav1.PartialObjectMetadata).DeepCopy)
		return "a namespace"
	case 9:
		c.Pods = replaced(c.Rand, c.Pods, c.pool.Pods, (*corev1.Pod).DeepCopy)
		return "a Pod"
	case 10:
		c.taken = c.taken.Add(time.Duration(c.IntN(24*40)) * time.Hour)
		return "the time"
	case 11:
		return c.edit()
	case 12:
		c.ServicesKnown, c.EndpointsKnown, c.NamespacesKnown = c.coverage(), c.coverage(), c.IntN(4) > 0
		return "what is known"
	}
	return "nothing"
}

// coverage is all, or some Services.
func (c *changingCluster) coverage() inventory.Coverage {
	out := inventory.Coverage{All: c.IntN(2) == 0, Services: map[inventory.Key]bool{}}
	for _, service := range c.pool.Services {
		if c.IntN(2) == 0 {
			out.Services[inventory.Key{Namespace: service.Namespace, Name: service.Name}] = true
		}
	}
	return out
}

// edit changes a webhook that is registered.
func (c *changingCluster) edit() string {
	if len(c.Validating) == 0 {
		return "nothing"
	}
	i := c.IntN(len(c.Validating))
	made := c.Validating[i].DeepCopy()
	if len(made.Webhooks) == 0 {
		return "nothing"
	}
	w := &made.Webhooks[c.IntN(len(made.Webhooks))]
	switch c.IntN(5) {
	case 0:
		w.TimeoutSeconds = new(int32(1 + c.IntN(30)))
	case 1:
		w.FailurePolicy = new([]admissionv1.FailurePolicyType{admissionv1.Fail, admissionv1.Ignore}[c.IntN(2)])
	case 2:
		w.Name = fmt.Sprintf("hook-%d.example.com", c.IntN(3))
	case 3:
		w.MatchPolicy = new([]admissionv1.MatchPolicyType{admissionv1.Exact, admissionv1.Equivalent}[c.IntN(2)])
	case 4:
		made.Annotations = map[string]string{acknowledgeAnnotation: Checks[c.IntN(len(Checks))].Name + ": known"}
	}
	c.Validating = slices.Clone(c.Validating)
	c.Validating[i] = made
	return "an edited webhook"
}

// probes are those of some webhooks.
func (c *changingCluster) probes(s *inventory.Snapshot) *inventory.Snapshot {
	out := *s
	out.Probes = map[inventory.Ref]inventory.Probe{}
	for _, w := range s.Webhooks {
		if len(w.Name)%3 == 0 {
			ends := c.taken.Truncate(90 * 24 * time.Hour).Add(100 * 24 * time.Hour)
			out.Probes[w.Ref] = inventory.Probe{
				Answer: inventory.AnswerTLS, At: c.taken.Truncate(20 * 24 * time.Hour),
				Certificate: &inventory.ServingCertificate{NotAfter: ends},
			}
		}
	}
	return &out
}

// FuzzNext: after each of many changes, a Matcher that takes over what it knows leads to
// the same Report as a new one.
func FuzzNext(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	const steps = 12 // go test gives up an input that takes ten seconds
	policy := DefaultPolicy()
	policy.Budgets = []Budget{{Resource: inventory.Resource{Name: "pods"}, Seconds: 5, Webhooks: 3}}
	policy.Acknowledgements = []Acknowledgement{{Check: "over-broad", Reason: "known", Until: Date{taken.AddDate(0, 2, 0)}}, {Check: "long-*", Reason: "known"}}
	objects := pool(f)
	f.Fuzz(func(t *testing.T, seed uint64) {
		c := &changingCluster{Rand: rand.New(rand.NewPCG(seed, 1)), pool: objects, taken: taken}
		c.Objects = mixed.Cluster(c.Rand)
		builder := inventory.Builder{}
		var matcher *admission.Matcher
		for n := range steps {
			what := c.step()
			snapshot := builder.Snapshot(c.Objects, c.taken)
			if seed%2 == 0 {
				snapshot = c.probes(snapshot)
			}
			matcher = matcher.Next(snapshot)
			have := must.Get(policy.EvaluateBy(t.Context(), matcher))(t)
			anew := c.Objects.Snapshot(c.taken)
			anew.Probes = snapshot.Probes
			if diff := cmp.Diff(anew, snapshot, compareSnapshots...); diff != "" {
				t.Fatalf("step %d, after %s: Snapshot: -new +taken over:\n%s", n, what, diff)
			}
			if diff := differences(evaluate(t, policy, anew), have); diff != "" {
				t.Fatalf("step %d, after %s: -new +taken over:\n%s", n, what, diff)
			}
		}
	})
}

// differences compares all that Reports say.
func differences(a, b *Report) string {
	options := cmp.Options{
		cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(Facts{}, "Webhook"), // compared with the Snapshots
		cmpopts.IgnoreFields(start.Wait{}, "Webhook"),
		cmpopts.IgnoreUnexported(Facts{}, admission.Limit{}),
		cmp.Comparer(func(a, b *Check) bool { return a == b }),
	}
	if diff := cmp.Diff(a.Findings, b.Findings, options); diff != "" {
		return diff
	}
	if diff := cmp.Diff(a.Costs, b.Costs, options); diff != "" {
		return diff
	}
	if !reflect.DeepEqual(a.Errors, b.Errors) {
		return cmp.Diff(a.Errors, b.Errors)
	}
	facts := func(r *Report) (out []*Facts) {
		for _, p := range r.Profiles {
			out = append(out, p.Facts)
		}
		return out
	}
	return cmp.Diff(facts(a), facts(b), options)
}
