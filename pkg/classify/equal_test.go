package classify

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// mixed is a cluster of few webhooks that have much to do with each other:
// whatever they ask for, some of it is there.
func mixed(r *rand.Rand) inventory.Objects {
	o := inventory.Objects{NamespacesKnown: r.IntN(4) > 0}
	o.ServicesKnown.All, o.EndpointsKnown.All = true, true
	const namespaces = 5
	for i := range namespaces {
		if r.IntN(5) > 0 {
			addNamespace(&o, team(i), someLabels(r))
		}
		for s := range 2 {
			addBackend(&o, team(i), fmt.Sprintf("policy-%d", s))
			o.Pods[len(o.Pods)-1].Labels["tier"] = fmt.Sprint(r.IntN(2))
			o.Pods[len(o.Pods)-1].Spec.HostNetwork = r.IntN(3) == 0
		}
	}
	if r.IntN(2) == 0 {
		o.Pods = append(o.Pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: team(0), Name: "cni", Labels: someLabels(r), OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "cni", Controller: new(true)}}},
			Spec:       corev1.PodSpec{PriorityClassName: "system-node-critical", HostNetwork: true},
		})
	}
	for i := range 1 + r.IntN(8) {
		w := onPods(team(r.IntN(namespaces)), fmt.Sprintf("policy-%d", r.IntN(2)))
		w.Name, w.TimeoutSeconds = fmt.Sprintf("hook-%d.example.com", r.IntN(6)), new(int32(1+r.IntN(5)))
		w.NamespaceSelector, w.ObjectSelector = someSelector(r), someSelector(r)
		if r.IntN(3) == 0 {
			w.Rules[0].Resources = []string{"pods/status"}
		}
		meta := metav1.ObjectMeta{Name: fmt.Sprintf("policy-%d", i)}
		if r.IntN(2) == 0 {
			o.Mutating = append(o.Mutating, &admissionv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionv1.MutatingWebhook{reinvoked(w)}})
			continue
		}
		o.Validating = append(o.Validating, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionv1.ValidatingWebhook{w}})
	}
	return o
}

func someLabels(r *rand.Rand) map[string]string {
	out := map[string]string{}
	for _, key := range []string{"tier", "team"} {
		if r.IntN(2) == 0 {
			out[key] = fmt.Sprint(r.IntN(2))
		}
	}
	return out
}

func someSelector(r *rand.Rand) *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	for _, e := range []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{team(r.IntN(5)), team(r.IntN(5))}},
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{team(r.IntN(5))}},
		{Key: "tier", Operator: metav1.LabelSelectorOpNotIn, Values: []string{fmt.Sprint(r.IntN(2))}},
		{Key: "team", Operator: metav1.LabelSelectorOpExists},
		{Key: "team", Operator: metav1.LabelSelectorOpDoesNotExist},
	} {
		if r.IntN(6) == 0 {
			out.MatchExpressions = append(out.MatchExpressions, e)
		}
	}
	return out
}

// TestSameAsPairByPair: the classes find what asking about each pair of webhooks
// and Pods would find.
func TestSameAsPairByPair(t *testing.T) {
	found, cheapest := 0, 0
	for seed := range uint64(400) {
		s := mixed(rand.New(rand.NewPCG(seed, 0))).Snapshot(taken)
		report := evaluate(t, DefaultPolicy(), s)
		want := pairByPair(s, report.Profiles)
		for i := range report.Profiles {
			p := &report.Profiles[i]
			if p.Deadlock != nil {
				found++
			}
			if diff := cmp.Diff(want[i], p.Deadlock, cmpopts.IgnoreFields(Deadlock{}, "Steps", "Resources")); diff != "" {
				t.Fatalf("seed %d: %s: -pair by pair +classes:\n%s", seed, p.Configuration, diff)
			}
			if diff := cmp.Diff(othersOf(report.Profiles, i), p.Reinvoked.First, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("seed %d: %s: -pair by pair +classes:\n%s", seed, p.Configuration, diff)
			}
		}
		for _, c := range report.Costs {
			if c.Namespace != "" && c.Total() > 0 {
				cheapest++
			}
			if want := dearest(s, report.Profiles, c); c.Total() != want {
				t.Fatalf("seed %d: %s of %s costs %s in %q, want %s", seed, c.Operation, c.Resource, c.Total(), c.Namespace, want)
			}
		}
	}
	if found < 100 || cheapest < 100 {
		t.Errorf("only %d deadlocks and %d costs were compared", found, cheapest)
	}
}

// pairByPair are the deadlocks by asking each webhook about the Pods of each
// other, and following what waits for what.
func pairByPair(s *inventory.Snapshot, profiles []Profile) map[int]*Deadlock {
	blocking := findBlockingWebhooks(newWork(context.Background()), s, pointers(profiles))
	possible := reachable(admission.New(s), blocking, dependency.possible)
	certain := reachable(admission.New(s), blocking, dependency.certain)
	out := map[int]*Deadlock{}
	for i := range profiles {
		out[i] = nil
		for j, b := range blocking {
			if b.profile == &profiles[i] && len(possible[j].Namespaces) > 0 {
				d := possible[j]
				if sure := certain[j]; len(sure.Namespaces) > 0 {
					d.Certain, d.Webhooks = true, sure.Webhooks
				}
				out[i] = &d
			}
		}
	}
	return out
}

func reachable(m *admission.Matcher, blocking []*blockingWebhook, counts func(dependency) bool) []Deadlock {
	nodes := everyPodsComponents(m.Snapshot)
	refuses := func(b *blockingWebhook, p *component) bool {
		all, err := dependencies(m, slices.Concat(p.pods.requests, p.endpointRequests))
		if err != nil {
			panic(err)
		}
		return slices.ContainsFunc(all, func(n dependency) bool {
			n.verdict = n.request.Match(b.profile.Webhook)
			return (n.certain() || presumed(n.verdict)) && counts(n)
		})
	}
	after := func(p *component) []*component {
		var out []*component
		for _, b := range blocking {
			if refuses(b, p) {
				out = append(out, b.own)
			}
		}
		if p.pods.network {
			out = append(out, nodes...)
		}
		return out
	}
	from := map[*component]map[*component]bool{}
	for _, b := range blocking {
		if from[b.own] != nil {
			continue
		}
		from[b.own] = map[*component]bool{b.own: true}
		for queue := []*component{b.own}; len(queue) > 0; queue = queue[1:] {
			for _, p := range after(queue[0]) {
				if !from[b.own][p] {
					from[b.own][p] = true
					queue = append(queue, p)
				}
			}
		}
	}
	out := make([]Deadlock, len(blocking))
	for i, b := range blocking {
		for p := range from[b.own] {
			if refuses(b, p) {
				out[i].Namespaces = appendMissing(out[i].Namespaces, p.namespace)
			}
		}
		slices.Sort(out[i].Namespaces)
	}
	for i, b := range blocking {
		for j, other := range blocking {
			if len(out[i].Namespaces) > 0 && len(out[j].Namespaces) > 0 && from[b.own][other.own] && from[other.own][b.own] {
				out[i].Webhooks++
			}
		}
	}
	return out
}

// othersOf are the first configurations that are called again for what this one
// is called again for.
func othersOf(profiles []Profile, self int) []string {
	var out []string
	for i := range profiles {
		if !reinvocable(profiles[self].Webhook) || !reinvocable(profiles[i].Webhook) || profiles[i].Configuration == profiles[self].Configuration {
			continue
		}
		for _, r := range profiles[self].Matched {
			if _, both := find(profiles[i].Matched, r.Resource); both {
				out = appendMissing(out, profiles[i].Configuration)
			}
		}
	}
	slices.Sort(out)
	return out[:min(len(out), maxListed)]
}

// dearest is what the requests cost in the namespace where they cost most.
func dearest(s *inventory.Snapshot, profiles []Profile, c Cost) time.Duration {
	names := []string{"default", "kube-system"}
	for name := range s.Namespaces {
		names = append(names, name)
	}
	var most time.Duration
	for _, name := range names {
		var b admission.Budget
		for i := range profiles {
			at, matched := find(profiles[i].Matched, c.Resource)
			if !matched || !profiles[i].Matched[at].Operations.Has(c.Operation) {
				continue
			}
			if known, _ := namespaceLabels(s, name); !s.NamespacesKnown || profiles[i].NamespaceSelector.Parsed.Matches(labels.Set(known)) {
				b = b.Add(profiles[i].Webhook, c.Operation)
			}
		}
		most = max(most, b.Total())
	}
	return most
}
