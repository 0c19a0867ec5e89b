package start

import (
	"cmp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/selection"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// label is a label of a namespace or of an object.
type label struct {
	of         labelHolder
	key, value string
}

func (l label) compare(o label) int {
	return cmp.Or(cmp.Compare(l.key, o.key), cmp.Compare(l.value, o.value), cmp.Compare(l.of, o.of))
}

type labelHolder byte

const (
	ofNamespace labelHolder = 'n'
	ofObject    labelHolder = 'o'
	// ofOther is a value that no selector mentions, of a label that one does.
	ofOther labelHolder = '-'
)

// mentions are the labels that selectors ask for, and the values of each.
type mentions map[string]map[string]bool

// add adds those of a selector, and returns labels one of which all that it selects
// carries, the values of its most selective requirement; none where there are no such
// labels, or it cannot be read and refuses everything.
func (m mentions) add(of labelHolder, selector inventory.Selector) (anchors []label) {
	requirements, _ := selector.Parsed.Requirements()
	for _, r := range requirements {
		if m[r.Key()] == nil {
			m[r.Key()] = map[string]bool{}
		}
		var values []label
		for _, value := range r.ValuesUnsorted() {
			m[r.Key()][value] = true
			values = append(values, label{of, r.Key(), value})
		}
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			anchors = fewer(anchors, values)
		}
	}
	return anchors
}

// fewer returns the shorter of the lists that are not empty.
func fewer(a, b []label) []label {
	if len(a) == 0 || len(b) > 0 && len(b) < len(a) {
		return b
	}
	return a
}

// seen is what the selectors see of the labels, sorted: between two sets of labels
// of which they see the same no selector distinguishes. It costs the labels, not the
// selectors.
func (m mentions) seen(of labelHolder, known map[string]string) []label {
	var out []label
	for key, value := range known {
		switch {
		case m[key][value]:
			out = append(out, label{of, key, value})
		case m[key] != nil:
			out = append(out, label{ofOther, key, ""})
		}
	}
	slices.SortFunc(out, label.compare)
	return out
}

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
	namespace, object mentions
	// byName says that the names of namespaces count, which matchConditions read.
	byName bool
	placed map[*component]bool
	// podsSeen are what the selectors see of Pods that several Services select.
	podsSeen map[*pods]signature
}

// signature is the same for what all webhooks treat alike; labels are those that
// they see.
type signature struct {
	text   []byte
	labels []label
}

func newBuilder(step Step, m *admission.Matcher) *builder {
	return &builder{
		Graph:    &Graph{step: step, matcher: m},
		services: map[inventory.Key]*component{}, selected: map[inventory.Key]*pods{},
		byKey: map[string]*webhookClass{}, bySignature: map[string]int{},
		namespace: mentions{}, object: mentions{},
		placed: map[*component]bool{}, podsSeen: map[*pods]signature{},
	}
}

// block adds a webhook, which is served by the component.
func (b *builder) block(m member) {
	class := b.byKey[m.webhook.Key]
	if class == nil {
		class = &webhookClass{}
		class.anchors = fewer(b.namespace.add(ofNamespace, m.webhook.NamespaceSelector), b.object.add(ofObject, m.webhook.ObjectSelector))
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
	everyPod := &webhookClass{}
	for _, c := range everyPodNeeds(b.matcher.Snapshot) {
		everyPod.members = append(everyPod.members, member{index: -1, own: c})
	}
	b.blocking = append(b.blocking, everyPod)
	b.place(everyPod)
	for _, class := range b.blocking[:len(b.blocking)-1] {
		b.place(class)
	}
	for _, c := range others {
		b.sort(c)
	}
	if !b.ended {
		b.makeRosters()
	}
	return b.Graph
}

// place sorts what serves the webhooks of a class into classes.
func (b *builder) place(class *webhookClass) {
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
	s := b.signature(c)
	class, known := b.bySignature[string(s.text)]
	if !known {
		class = len(b.classes)
		b.bySignature[string(s.text)] = class
		b.classes = append(b.classes, &componentClass{requests: b.requests(c), network: c.pods.network, labels: s.labels})
	}
	c.class = class
	b.classes[class].components = append(b.classes[class].components, c)
}

func (b *builder) signature(c *component) signature {
	var s signature
	if b.byName {
		s.text = strconv.AppendQuote(s.text, c.namespace)
	}
	known, exists := b.matcher.Snapshot.NamespaceLabels(c.namespace)
	s.text = strconv.AppendBool(strconv.AppendBool(s.text, exists), c.use != "")
	s.add(b.namespace.seen(ofNamespace, known))
	seen, done := b.podsSeen[c.pods]
	if !done {
		seen.text = strconv.AppendBool(strconv.AppendBool(nil, c.pods.network), c.pods.unknown)
		for _, set := range c.pods.labels {
			seen.add(b.object.seen(ofObject, set))
		}
		b.podsSeen[c.pods] = seen
	}
	s.text, s.labels = append(s.text, seen.text...), append(s.labels, seen.labels...)
	if c.endpoints != nil {
		s.add(b.object.seen(ofObject, c.endpoints))
	}
	slices.SortFunc(s.labels, label.compare)
	s.labels = slices.Compact(s.labels)
	return s
}

func (s *signature) add(seen []label) {
	for _, l := range seen {
		s.text = strconv.AppendQuote(append(s.text, byte(l.of)), l.key)
		s.text = strconv.AppendQuote(s.text, l.value)
	}
	s.text = append(s.text, ';')
	s.labels = append(s.labels, seen...)
}
