// Package start answers what has to run before what: which webhooks refuse what
// the Pods behind others need to start and to be called. A Graph (graph.go) is made
// of what has to start (component.go), sorted into classes that no webhook
// distinguishes. From it come the cycles in which nothing starts any more (deadlock.go)
// and the order in which what is down comes back (order.go).
package start

import (
	"fmt"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Webhook is a webhook as far as others may wait for it.
type Webhook struct {
	*inventory.Webhook
	Service inventory.Key
	// Key is its admission.MatchKey.
	Key string
}

// CanBlock reports whether the webhook, which matches these resources, could keep
// anything from starting that it waits for: it fails closed, runs in the cluster, and
// is called for what starts.
func CanBlock(w *inventory.Webhook, matched []admission.MatchedResource) bool {
	if w.Type == inventory.Conversion || !w.FailsClosed() || w.Backend.Kind == inventory.BackendURL {
		return false
	}
	return slices.ContainsFunc(matched, func(r admission.MatchedResource) bool {
		return needOf(r.Resource).refused != ""
	})
}

// Graph is what waits for what to start. Its nodes are classes, because thousands
// of webhooks differ in little. A class of components waits for the classes of webhooks
// that refuse what it needs, and those for what serves them. The last class of
// webhooks stands for what every Pod needs.
type Graph struct {
	matcher *admission.Matcher
	// webhooks counts those that New was given.
	webhooks int
	classes  []*componentClass
	blocking []*webhookClass
	// compared counts the pairs of classes that were compared.
	compared int
	// services are what runs behind each.
	services map[inventory.Key]*component
}

// componentClass are the components that all webhooks treat alike.
type componentClass struct {
	components []*component
	requests   []admission.Request
	network    bool
	// refused are the classes of webhooks that refuse what it needs.
	refused []refusal
}

// webhookClass are the webhooks that refuse the same.
type webhookClass struct {
	members []member
	// backends are members, one for each class of what serves them.
	backends []member
	// refuses are the classes of components that they refuse something.
	refuses []refusal
}

// member is a webhook by its place in what New was given, and what serves it. Among
// what every Pod needs it has no webhook.
type member struct {
	index   int
	webhook *Webhook
	own     *component
}

// refusal is what the webhooks of a class keep the components of a class from.
type refusal struct {
	webhooks, class int
	resource        inventory.Resource
	// certain is false where labels of the namespace that are unknown decide, or leases.
	certain   bool
	namespace string
}

// New returns the Graph of the webhooks that could be kept from starting themselves.
// It costs a few requests for each pair of classes that it compares, and a step: where
// that returns false, no more are compared.
func New(step func() bool, m *admission.Matcher, webhooks []Webhook) *Graph {
	g := newGraph(m, len(webhooks))
	var members []member
	for i := range webhooks {
		if own := g.backendOf(webhooks[i].Service); len(own.labels) > 0 && !own.unknown {
			members = append(members, member{i, &webhooks[i], own})
		}
	}
	g.build(step, members, nil)
	return g
}

func newGraph(m *admission.Matcher, webhooks int) *Graph {
	return &Graph{matcher: m, webhooks: webhooks, services: map[inventory.Key]*component{}}
}

// build sorts the webhooks, what serves them and what every Pod needs into classes, and
// compares these. What every Pod needs is needed as if one more webhook refused the Pods
// that wait for it. The other components wait without serving a webhook.
func (g *Graph) build(step func() bool, members []member, others []*component) {
	byKey, s := map[string]*webhookClass{}, sorter{
		Graph: g, bySignature: map[string]int{}, sorted: map[*component]bool{},
	}
	var ofNamespace, ofObject []inventory.Selector
	for _, m := range members {
		class := byKey[m.webhook.Key]
		if class == nil {
			class = &webhookClass{}
			byKey[m.webhook.Key] = class
			g.blocking = append(g.blocking, class)
			s.conditional = s.conditional || len(m.webhook.MatchConditions) > 0
			ofNamespace, ofObject = append(ofNamespace, m.webhook.NamespaceSelector), append(ofObject,
				m.webhook.ObjectSelector)
		}
		class.members = append(class.members, m)
	}
	s.namespace, s.object = admission.MentionsOf(ofNamespace...), admission.MentionsOf(ofObject...)
	everyPod := &webhookClass{}
	for _, c := range everyPodNeeds(g.matcher.Snapshot) {
		everyPod.members = append(everyPod.members, member{own: c})
	}
	g.blocking = append(g.blocking, everyPod)
	for _, class := range g.blocking {
		entered := map[int]bool{}
		for _, m := range class.members {
			if s.sort(m.own); !entered[m.own.class] {
				entered[m.own.class] = true
				class.backends = append(class.backends, m)
			}
		}
	}
	for _, c := range others {
		s.sort(c)
	}
	g.compare(step)
}

// sorter sorts components into classes, by what the selectors mention.
type sorter struct {
	*Graph
	sorted            map[*component]bool
	bySignature       map[string]int
	namespace, object admission.Mentions
	// conditional says that there are matchConditions, which may read the name of the namespace and any label.
	conditional bool
}

// sort finds the component's class, or makes it.
func (s *sorter) sort(c *component) {
	if s.sorted[c] {
		return
	}
	signature := s.signature(c)
	class, ok := s.bySignature[signature]
	if !ok {
		class = len(s.classes)
		s.bySignature[signature] = class
		s.classes = append(s.classes, &componentClass{requests: s.requests(c), network: c.network})
	}
	c.class, s.sorted[c] = class, true
	s.classes[class].components = append(s.classes[class].components, c)
}

// signature is the same for components that all webhooks treat alike.
func (s *sorter) signature(c *component) string {
	namespaceLabels, exists := s.matcher.Snapshot.NamespaceLabels(c.namespace)
	keys := []string{s.namespace.Seen(namespaceLabels)}
	if s.conditional {
		keys = append(keys, c.namespace, fmt.Sprint(c.labels, c.endpoints))
	}
	keys = append(keys, lists.Map(c.labels, s.object.Seen)...)
	if c.endpoints != nil {
		keys = append(keys, s.object.Seen(c.endpoints))
	}
	return fmt.Sprintf("%t %t %t %t %t %q", exists, c.use != "", c.network, c.unknown, c.endpoints != nil, keys)
}

func appendMissing[T comparable](list []T, value T) []T {
	if slices.Contains(list, value) {
		return list
	}
	return append(list, value)
}

// Kinds counts the webhooks that differ, and the Pods.
func (g *Graph) Kinds() (webhooks, pods int) { return g.everyPod(), len(g.classes) }

// NotCompared counts the pairs of kinds of webhooks and of Pods that are too many to be
// compared. Each webhook is compared with its own Pods in any case.
func (g *Graph) NotCompared() int { return max(0, len(g.classes)*g.everyPod()-g.compared) }

// everyPod is the class of what every Pod needs.
func (g *Graph) everyPod() int { return len(g.blocking) - 1 }

// maxCompared bounds the pairs of classes that are compared: a hundred and seventy kinds
// of webhooks with as many kinds of Pods. That takes a fraction of a second.
const maxCompared = 30_000

// compare finds what refuses what: of each webhook its own Pods first.
func (g *Graph) compare(step func() bool) {
	type pair struct{ webhooks, class int }
	compared, ended := map[pair]bool{}, false
	ask := func(p pair) {
		if ended = ended || !step(); !ended && !compared[p] {
			compared[p] = true
			g.addRefusal(p.webhooks, p.class)
		}
	}
	for i, class := range g.blocking[:g.everyPod()] {
		for _, m := range class.backends {
			ask(pair{i, m.own.class})
		}
	}
	for c, class := range g.classes {
		for i := 0; i < g.everyPod() && len(compared) < maxCompared && !ended; i++ {
			ask(pair{i, c})
		}
		if class.network && len(g.blocking[g.everyPod()].members) > 0 {
			g.add(refusal{webhooks: g.everyPod(), class: c, certain: true})
		}
	}
	g.compared = len(compared)
}

func (g *Graph) add(r refusal) {
	g.classes[r.class].refused = append(g.classes[r.class].refused, r)
	g.blocking[r.webhooks].refuses = append(g.blocking[r.webhooks].refuses, r)
}

// addRefusal adds what the webhooks keep the components from, if anything: what they
// certainly refuse before what they refuse unless a label that is unknown exempts
// the namespace, or the Pods serve before one of them leads.
func (g *Graph) addRefusal(webhooks, class int) {
	var found *refusal
	webhook := g.blocking[webhooks].members[0].webhook
	for _, r := range g.classes[class].requests {
		v := r.Match(webhook.Webhook)
		certain := v.Match == admission.Yes && !needOf(r.Resource).leads
		if certain {
			found = &refusal{webhooks, class, r.Resource, true, r.Namespace}
			break
		}
		if found == nil && (v.Match == admission.Yes || v.Presumed()) {
			found = &refusal{webhooks, class, r.Resource, false, r.Namespace}
		}
	}
	if found != nil {
		g.add(*found)
	}
}
