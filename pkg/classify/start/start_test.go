package start

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest/mixed"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// TestSameAsPairByPair: the classes find what asking about each pair of webhooks
// and Pods would find: deadlocks, and the order in which all comes back.
func TestSameAsPairByPair(t *testing.T) {
	found, stuck := 0, 0
	for seed := range uint64(400) {
		m := newModel(mixed.Cluster(rand.New(rand.NewPCG(seed, 0))).Snapshot(time.Unix(0, 0)))
		stuck += m.sameOrder(t, seed)
		g := New(always, m.matcher, m.webhooks())
		have := g.Deadlocks()
		for _, d := range have {
			if d != nil {
				found++
			}
		}
		if diff := cmp.Diff(m.deadlocks(), have, cmpopts.IgnoreFields(Deadlock{}, "Waits", "Resources")); diff != "" {
			t.Fatalf("seed %d: -pair by pair +classes:\n%s", seed, diff)
		}
		if g.NotCompared() != 0 {
			t.Errorf("seed %d: %d pairs are not compared", seed, g.NotCompared())
		}
	}
	if found < 100 || stuck < 100 {
		t.Errorf("only %d deadlocks and %d Services that do not come back were compared", found, stuck)
	}
}

func always() bool { return true }

// TestNotCompared: beyond the bound a webhook is compared with its own Pods all the same,
// and what is left out is counted.
func TestNotCompared(t *testing.T) {
	const n = 300
	o := inventory.Objects{Cluster: inventory.Cluster{NamespacesKnown: true}}
	o.ServicesKnown.All = true
	for i := range n {
		name := fmt.Sprintf("team-%03d", i)
		service := kubetest.Service(name, "policy")
		service.Spec.Selector = map[string]string{"app": "policy"}
		o.Namespaces, o.Services = append(o.Namespaces, kubetest.Namespace(name, nil)), append(o.Services, service)
		w := kubetest.Webhook(name+".example.com", kubetest.Client(name, "policy"), kubetest.Rule("", "pods"))
		w.NamespaceSelector = kubetest.Selector(corev1.LabelMetadataName, metav1.LabelSelectorOpIn, name)
		o.Validating = append(o.Validating, kubetest.Validating(name, w))
	}
	m := newModel(o.Snapshot(time.Unix(0, 0)))
	g := New(always, m.matcher, m.webhooks())
	if webhooks, pods := g.Kinds(); webhooks != n || pods != n || g.NotCompared() != n*n-maxCompared {
		t.Errorf("%d kinds of webhooks, %d of Pods, %d pairs are not compared", webhooks, pods, g.NotCompared())
	}
	for i, d := range g.Deadlocks() {
		if d == nil || len(d.Waits) != 1 {
			t.Errorf("webhook %d refuses its own Pods: %+v", i, d)
		}
	}
}

func (m *model) webhooks() []Webhook {
	var out []Webhook
	for _, f := range m.blocking {
		out = append(out, *f)
	}
	return out
}

// model is what starts, asked pair by pair.
type model struct {
	matcher  *admission.Matcher
	blocking []*Webhook
	// backends are what the Pods behind the Services of blocking are, and everyPod
	// what they all need.
	backends map[inventory.Key]*modelPods
	everyPod []*modelPods
}

type modelPods struct {
	namespace string
	requests  []admission.Request
	network   bool
}

func newModel(s *inventory.Snapshot) *model {
	m := &model{matcher: admission.New(s), backends: map[inventory.Key]*modelPods{}}
	for _, w := range s.Webhooks {
		if !CanBlock(w, m.matcher.MatchedResources(w)) {
			continue
		}
		key := s.State(w.Backend).Service.Key
		m.blocking = append(m.blocking, &Webhook{Webhook: w, Service: key, Key: admission.MatchKey(w)})
		if m.backends[key] != nil {
			continue
		}
		service := s.Services[key]
		p := &modelPods{namespace: key.Namespace}
		for _, w := range s.Behind(service) {
			m.add(p, w.PodLabels, false)
			p.network = p.network || !w.HostNetwork
		}
		m.add(p, map[string]string{"kubernetes.io/service-name": key.Name}, true)
		m.backends[key] = p
	}
	for _, w := range s.Workloads {
		if w.NodeCritical {
			p := &modelPods{namespace: w.Namespace}
			m.add(p, w.PodLabels, false)
			m.everyPod = append(m.everyPod, p)
		}
	}
	return m
}

func (m *model) add(p *modelPods, labels map[string]string, endpoints bool) {
	for _, w := range needs {
		if w.endpoints != endpoints {
			continue
		}
		subject := admission.Subject{Namespace: p.namespace, Labels: map[string]string{}}
		if w.labeled {
			subject.Labels = labels
		}
		request, err := m.matcher.Request(w.Operation, w.Resource, subject)
		if err != nil {
			panic(err)
		}
		p.requests = append(p.requests, request)
	}
}

func (m *model) refuses(f *Webhook, p *modelPods, certainly bool) bool {
	return slices.ContainsFunc(p.requests, func(r admission.Request) bool {
		v := r.Match(f.Webhook)
		return v.Match == admission.Yes && !(certainly && r.Resource.Name == "leases") || v.Presumed() && !certainly
	})
}

// deadlocks are those of each webhook by asking it about the Pods of each other, and
// following what waits for what.
func (m *model) deadlocks() []*Deadlock {
	possible, certain := m.reachable(false), m.reachable(true)
	out := make([]*Deadlock, len(m.blocking))
	for i := range m.blocking {
		if d := possible[i]; len(d.Namespaces) > 0 {
			if sure := certain[i]; len(sure.Namespaces) > 0 {
				d.Certain = true
			}
			out[i] = &d
		}
	}
	return out
}

func (m *model) reachable(certainly bool) []Deadlock {
	after := func(p *modelPods) []*modelPods {
		var out []*modelPods
		for _, f := range m.blocking {
			if m.refuses(f, p, certainly) {
				out = append(out, m.backends[f.Service])
			}
		}
		if p.network {
			out = append(out, m.everyPod...)
		}
		return out
	}
	from := map[*modelPods]map[*modelPods]bool{}
	for _, own := range m.backends {
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
	out := make([]Deadlock, len(m.blocking))
	for i, f := range m.blocking {
		namespaces := map[string]bool{}
		for p := range from[m.backends[f.Service]] {
			if m.refuses(f, p, certainly) {
				namespaces[p.namespace] = true
			}
		}
		out[i].Namespaces = slices.Sorted(maps.Keys(namespaces))
	}
	return out
}

// sameOrder compares Order with waves, and counts the Services that never start.
func (m *model) sameOrder(t *testing.T, seed uint64) int {
	t.Helper()
	webhooks := m.webhooks()
	order := Order(always, m.matcher, webhooks, slices.Collect(maps.Keys(m.backends)))
	var stuck []inventory.Key
	for _, b := range order.Stuck {
		stuck = append(stuck, b.Services...)
		for _, i := range b.By {
			if !slices.ContainsFunc(order.Stuck, func(o Blocked) bool { return slices.Contains(o.Services, webhooks[i].Service) }) {
				t.Errorf("seed %d: %s is blocked by a webhook of %s, which starts", seed, b.Services, webhooks[i].Service)
			}
		}
		if len(b.By) == 0 {
			t.Errorf("seed %d: nothing blocks %s: %+v", seed, b.Services, b)
		}
	}
	slices.SortFunc(stuck, inventory.Key.Compare)
	wantWaves, wantStuck := m.waves()
	if diff := cmp.Diff(wantWaves, order.Waves, cmpopts.EquateEmpty()) + cmp.Diff(wantStuck, stuck, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("seed %d: -pair by pair +Order:\n%s", seed, diff)
	}
	return len(stuck)
}

// waves are the Services that start one after the other while all are down, and
// those that never do.
func (m *model) waves() (waves [][]inventory.Key, keys []inventory.Key) {
	down := maps.Clone(m.backends)
	everyPod := slices.Clone(m.everyPod)
	refused := func(p *modelPods) bool {
		return slices.ContainsFunc(m.blocking, func(f *Webhook) bool {
			return down[f.Service] != nil && m.refuses(f, p, false)
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
