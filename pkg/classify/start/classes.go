package start

import (
	"slices"
	"strconv"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// builder makes a Graph: first of the webhooks, whose selectors decide into which
// classes the components are sorted.
type builder struct {
	*Graph
	services map[inventory.Key]*component
	// selected are the Pods by the namespace and what a Service of it selects.
	selected map[inventory.Key]*pods
	// byKey are the classes of webhooks by Webhook.Key, bySignature those of
	// components.
	byKey       map[string]*webhookClass
	bySignature map[string]int
	// namespace and object are what the selectors mention.
	namespace, object admission.Mentions
	// byName says that the names of namespaces count, which matchConditions read.
	byName bool
	placed map[*component]bool
	// podsSeen are what the selectors see of Pods that several Services select.
	podsSeen map[*pods]string
}

func newBuilder(step Step, m *admission.Matcher) *builder {
	return &builder{
		Graph:    &Graph{step: step, matcher: m},
		services: map[inventory.Key]*component{}, selected: map[inventory.Key]*pods{},
		byKey: map[string]*webhookClass{}, bySignature: map[string]int{},
		placed: map[*component]bool{}, podsSeen: map[*pods]string{},
	}
}

// block adds a webhook, which is served by the component.
func (b *builder) block(m member) {
	class := b.byKey[m.webhook.Key]
	if class == nil {
		class = &webhookClass{}
		b.byKey[m.webhook.Key] = class
		b.blocking = append(b.blocking, class)
		b.byName = b.byName || len(m.webhook.MatchConditions) > 0
	}
	class.members = append(class.members, m)
}

// graph completes the Graph: what every Pod needs is needed as if one more webhook
// refused the Pods that wait for it. The other components wait without serving a
// webhook.
func (b *builder) graph(others ...*component) *Graph {
	var ofNamespace, ofObject []inventory.Selector
	for _, class := range b.blocking {
		w := class.members[0].webhook
		ofNamespace, ofObject = append(ofNamespace, w.NamespaceSelector), append(ofObject, w.ObjectSelector)
	}
	b.namespace, b.object = admission.MentionsOf(ofNamespace...), admission.MentionsOf(ofObject...)
	everyPod := &webhookClass{}
	for _, c := range everyPodNeeds(b.matcher.Snapshot) {
		everyPod.members = append(everyPod.members, member{index: -1, own: c})
	}
	b.blocking = append(b.blocking, everyPod)
	b.place(b.everyPod())
	for i := range b.everyPod() {
		b.place(i)
	}
	for _, c := range others {
		b.sort(c)
	}
	b.compare()
	return b.Graph
}

// place sorts what serves the webhooks of a class into classes.
func (b *builder) place(webhooks int) {
	class := b.blocking[webhooks]
	for _, m := range class.members {
		b.sort(m.own)
		class.backends = append(class.backends, m.own.class)
	}
	slices.Sort(class.backends)
	class.backends = slices.Compact(class.backends)
}

// sort finds the component's class, or makes it.
func (b *builder) sort(c *component) {
	if b.placed[c] || !b.tick() {
		return
	}
	b.placed[c] = true
	signature := b.signature(c)
	class, known := b.bySignature[signature]
	if !known {
		class = len(b.classes)
		b.bySignature[signature] = class
		b.classes = append(b.classes, &componentClass{requests: b.requests(c), network: c.pods.network})
	}
	c.class = class
	b.classes[class].components = append(b.classes[class].components, c)
}

// signature is the same for components that all webhooks treat alike.
func (b *builder) signature(c *component) string {
	var s []byte
	if b.byName {
		s = strconv.AppendQuote(s, c.namespace)
	}
	known, exists := b.matcher.Snapshot.NamespaceLabels(c.namespace)
	s = strconv.AppendBool(strconv.AppendBool(s, exists), c.use != "")
	s = strconv.AppendQuote(s, b.namespace.Seen(known))
	seen, done := b.podsSeen[c.pods]
	if !done {
		text := strconv.AppendBool(strconv.AppendBool(nil, c.pods.network), c.pods.unknown)
		for _, set := range c.pods.labels {
			text = strconv.AppendQuote(text, b.object.Seen(set))
		}
		seen = string(text)
		b.podsSeen[c.pods] = seen
	}
	s = append(s, seen...)
	if c.endpoints != nil {
		s = strconv.AppendQuote(append(s, ';'), b.object.Seen(c.endpoints))
	}
	return string(s)
}
