package classify

import (
	"fmt"
	"maps"
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

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/start"
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
		switch r.IntN(6) {
		case 0, 1:
			w.Rules[0].Resources = []string{"pods/status"}
		case 2:
			w.Rules[0].APIGroups, w.Rules[0].Resources = []string{"discovery.k8s.io", "coordination.k8s.io"}, []string{"endpointslices", "leases"}[r.IntN(2):][:1]
		}
		meta := metav1.ObjectMeta{Name: fmt.Sprintf("policy-%d", i)}
		if r.IntN(2) == 0 {
			o.Mutating = append(o.Mutating, &admissionv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionv1.MutatingWebhook{kubetest.Reinvoked(w)}})
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
	found, cheapest, stuck := 0, 0, 0
	for seed := range uint64(400) {
		s := mixed(rand.New(rand.NewPCG(seed, 0))).Snapshot(taken)
		report := evaluate(t, DefaultPolicy(), s)
		model := newStartModel(s, report.Profiles)
		stuck += model.sameOrder(t, seed)
		model.watched(t)
		want := pairByPair(model, report.Profiles)
		for i := range report.Profiles {
			p := &report.Profiles[i]
			if p.Deadlock != nil {
				found++
			}
			if diff := cmp.Diff(want[i], p.Deadlock, cmpopts.IgnoreFields(Deadlock{}, "Steps"), cmpopts.IgnoreFields(start.Deadlock{}, "Waits", "Abridged", "Resources")); diff != "" {
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
	if found < 100 || cheapest < 100 || stuck < 100 {
		t.Errorf("only %d deadlocks, %d Services that do not come back and %d costs were compared", found, stuck, cheapest)
	}
}

// startModel is what starts, asked pair by pair.
type startModel struct {
	matcher  *admission.Matcher
	blocking []*Facts
	// behind are what the Pods behind the Services of blocking are, and everyPod
	// what they all need.
	behind   map[inventory.Key]*modelPods
	everyPod []*modelPods
}

type modelPods struct {
	namespace string
	requests  []admission.Request
	network   bool
}

func newStartModel(s *inventory.Snapshot, profiles []Profile) *startModel {
	m := &startModel{matcher: admission.New(s), behind: map[inventory.Key]*modelPods{}}
	for i := range profiles {
		f := profiles[i].Facts
		key := f.State.Service.Key
		if !f.CanBlock() {
			continue
		}
		if m.blocking = append(m.blocking, f); m.behind[key] != nil {
			continue
		}
		service := s.Services[key]
		p := &modelPods{namespace: key.Namespace}
		for _, w := range s.Behind(service) {
			m.add(p, w.PodLabels, admission.PodWrites...)
			p.network = p.network || !w.HostNetwork
		}
		slices, leases := inventory.Resource{Group: "discovery.k8s.io", Name: "endpointslices"}, inventory.Resource{Group: "coordination.k8s.io", Name: "leases"}
		m.add(p, map[string]string{"kubernetes.io/service-name": key.Name}, admission.PodWrite{Resource: slices, Operation: admission.Update, Labeled: true}, admission.PodWrite{Resource: leases, Operation: admission.Update})
		m.behind[key] = p
	}
	for _, w := range s.Workloads {
		if w.NodeCritical {
			p := &modelPods{namespace: w.Namespace}
			m.add(p, w.PodLabels, admission.PodWrites...)
			m.everyPod = append(m.everyPod, p)
		}
	}
	return m
}

func (m *startModel) add(p *modelPods, labels map[string]string, writes ...admission.PodWrite) {
	for _, w := range writes {
		subject := admission.Subject{Namespace: p.namespace, Labels: map[string]string{}}
		if w.Labeled {
			subject.Labels = labels
		}
		request, err := m.matcher.Request(w.Operation, w.Resource, subject)
		if err != nil {
			panic(err)
		}
		p.requests = append(p.requests, request)
	}
}

func (m *startModel) refuses(f *Facts, p *modelPods, certainly bool) bool {
	return slices.ContainsFunc(p.requests, func(r admission.Request) bool {
		v := r.Match(f.Webhook)
		return v.Match == admission.Yes || v.Presumed() && !certainly
	})
}

// pairByPair are the deadlocks by asking each webhook about the Pods of each
// other, and following what waits for what.
func pairByPair(m *startModel, profiles []Profile) map[int]*Deadlock {
	possible, certain := m.reachable(false), m.reachable(true)
	out := map[int]*Deadlock{}
	for i := range profiles {
		out[i] = nil
		for j, f := range m.blocking {
			if f == profiles[i].Facts && len(possible[j].Namespaces) > 0 {
				d := possible[j]
				if sure := certain[j]; len(sure.Namespaces) > 0 {
					d.Certain, d.Webhooks = true, sure.Webhooks
				}
				out[i] = &Deadlock{Deadlock: &d}
			}
		}
	}
	return out
}

func (m *startModel) reachable(certainly bool) []start.Deadlock {
	after := func(p *modelPods) []*modelPods {
		var out []*modelPods
		for _, f := range m.blocking {
			if m.refuses(f, p, certainly) {
				out = append(out, m.behind[f.State.Service.Key])
			}
		}
		if p.network {
			out = append(out, m.everyPod...)
		}
		return out
	}
	from := map[*modelPods]map[*modelPods]bool{}
	for _, own := range m.behind {
		from[own] = map[*modelPods]bool{own: true}
		for queue := []*modelPods{own}; len(queue) > 0; queue = queue[1:] {
			for _, p := range after(queue[0]) {
				if !from[own][p] {
					from[own][p] = true
					queue = append(queue, p)
				}
			}
		}
	}
	out := make([]start.Deadlock, len(m.blocking))
	for i, f := range m.blocking {
		namespaces := map[string]bool{}
		for p := range from[m.behind[f.State.Service.Key]] {
			if m.refuses(f, p, certainly) {
				namespaces[p.namespace] = true
			}
		}
		out[i].Namespaces = slices.Sorted(maps.Keys(namespaces))
	}
	for i, f := range m.blocking {
		for j, other := range m.blocking {
			own, its := m.behind[f.State.Service.Key], m.behind[other.State.Service.Key]
			if len(out[i].Namespaces) > 0 && len(out[j].Namespaces) > 0 && from[own][its] && from[its][own] {
				out[i].Webhooks++
			}
		}
	}
	return out
}

// sameOrder compares start.Order with waves, and counts the Services that never start.
func (m *startModel) sameOrder(t *testing.T, seed uint64) int {
	t.Helper()
	var webhooks []start.Webhook
	for _, f := range m.blocking {
		webhooks = append(webhooks, f.StartWebhook())
	}
	waves, blocked, err := start.Order(start.Steps(t.Context()), m.matcher, webhooks, slices.Collect(maps.Keys(m.behind)))
	var stuck []inventory.Key
	for _, b := range blocked {
		stuck = append(stuck, b.Service)
		for _, i := range b.By {
			if !slices.ContainsFunc(blocked, func(o start.Blocked) bool { return o.Service == webhooks[i].Service }) {
				t.Errorf("seed %d: %s is blocked by a webhook of %s, which starts", seed, b.Service, webhooks[i].Service)
			}
		}
		if len(b.By) == 0 {
			t.Errorf("seed %d: nothing blocks %s: %+v", seed, b.Service, b)
		}
	}
	wantWaves, wantStuck := m.waves()
	if diff := cmp.Diff(wantWaves, waves, cmpopts.EquateEmpty()) + cmp.Diff(wantStuck, stuck, cmpopts.EquateEmpty()); err != nil || diff != "" {
		t.Fatalf("seed %d: %v: -pair by pair +Order:\n%s", seed, err, diff)
	}
	return len(stuck)
}

// watched: what a webhook refuses of what every Pod needs is watched because of it.
func (m *startModel) watched(t *testing.T) {
	t.Helper()
	for _, f := range m.blocking {
		for _, p := range m.everyPod {
			if m.refuses(f, p, false) && !m.matcher.BlocksPods(f.Webhook, p.namespace) {
				t.Errorf("%s refuses Pods of %s, which are not watched", f.Ref, p.namespace)
			}
		}
	}
}

// waves are the Services that start one after the other while all are down, and
// those that never do.
func (m *startModel) waves() (waves [][]inventory.Key, stuck []inventory.Key) {
	down := maps.Clone(m.behind)
	everyPod := slices.Clone(m.everyPod)
	refused := func(p *modelPods) bool {
		return slices.ContainsFunc(m.blocking, func(f *Facts) bool {
			return down[f.State.Service.Key] != nil && m.refuses(f, p, false)
		})
	}
	for {
		everyPod = slices.DeleteFunc(everyPod, func(p *modelPods) bool { return !refused(p) })
		var wave []inventory.Key
		for key, p := range down {
			if !refused(p) && (!p.network || len(everyPod) == 0) {
				wave = append(wave, key)
			}
		}
		if len(wave) == 0 {
			return waves, slices.SortedFunc(maps.Keys(down), inventory.Key.Compare)
		}
		slices.SortFunc(wave, inventory.Key.Compare)
		waves = append(waves, wave)
		for _, key := range wave {
			delete(down, key)
		}
	}
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
				out = append(out, profiles[i].Configuration)
			}
		}
	}
	out = text.Distinct(out)
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
			if known, _ := s.NamespaceLabels(name); !s.NamespacesKnown || profiles[i].NamespaceSelector.Parsed.Matches(labels.Set(known)) {
				b = b.Add(profiles[i].Webhook, c.Operation)
			}
		}
		most = max(most, b.Total())
	}
	return most
}
