package classify

import (
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// mentions are the labels that selectors ask for, and the values of each.
type mentions map[string]map[string]bool

func (m mentions) add(selector labels.Selector) {
	if selector == nil {
		return
	}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		if m[r.Key()] == nil {
			m[r.Key()] = map[string]bool{}
		}
		for _, value := range r.ValuesUnsorted() {
			m[r.Key()][value] = true
		}
	}
}

// appendSignature appends what the selectors see of the labels: two sets of
// labels between which no selector distinguishes have one signature. It costs the labels, not the
// selectors.
func (m mentions) appendSignature(b []byte, known map[string]string) []byte {
	var keys []string
	for key := range known {
		if m[key] != nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		b = strconv.AppendQuote(b, key)
		if value := known[key]; m[key][value] {
			b = strconv.AppendQuote(append(b, '='), value)
		}
		b = append(b, ',')
	}
	return append(b, ';')
}

// of are the labels with a value that some selector mentions.
func (m mentions) of(holder labelHolder, known map[string]string) []label {
	var out []label
	for key, value := range known {
		if m[key][value] {
			out = append(out, label{holder, key, value})
		}
	}
	return out
}

// newStartGraph sorts the webhooks, and what has to start, into classes.
func newStartGraph(w *work, m *admission.Matcher, blocking []*blockingWebhook) *startGraph {
	g := &startGraph{work: w, nodes: everyPodsComponents(m.Snapshot)}
	classifier := componentClassifier{matcher: m, snapshot: m.Snapshot, graph: g, namespace: mentions{}, object: mentions{}, known: map[string]int{}, signatures: map[*podNeeds]string{}}
	byKey := map[string]*blockingClass{}
	for _, b := range blocking {
		key := b.profile.matchKey
		class := byKey[key]
		if class == nil {
			class = &blockingClass{anchors: anchorsOf(b.profile)}
			byKey[key] = class
			g.blocking = append(g.blocking, class)
			classifier.namespace.add(b.profile.NamespaceSelector.Parsed)
			classifier.object.add(b.profile.ObjectSelector.Parsed)
			classifier.byName = classifier.byName || len(b.profile.MatchConditions) > 0
		}
		class.members = append(class.members, b)
	}
	for _, p := range g.nodes {
		classifier.place(p)
	}
	for _, class := range g.blocking {
		for _, b := range class.members {
			classifier.place(b.own)
			class.backends = append(class.backends, b.own.class)
		}
		slices.Sort(class.backends)
		class.backends = slices.Compact(class.backends)
	}
	g.index()
	return g
}

// componentClassifier sorts components into classes.
type componentClassifier struct {
	matcher           *admission.Matcher
	snapshot          *inventory.Snapshot
	graph             *startGraph
	namespace, object mentions
	// byName says that the names of namespaces count, which matchConditions read.
	byName bool
	// known are the classes by signature.
	known map[string]int
	// signatures are those of Pods that several Services select.
	signatures map[*podNeeds]string
	placed     map[*component]bool
}

// place finds the component's class, or makes it.
func (c *componentClassifier) place(p *component) {
	if c.placed[p] || !c.graph.work.step() {
		return
	}
	if c.placed == nil {
		c.placed = map[*component]bool{}
	}
	c.placed[p] = true
	signature := c.signature(p)
	class, known := c.known[signature]
	if !known {
		class = len(c.graph.classes)
		c.known[signature] = class
		c.graph.classes = append(c.graph.classes, c.class(p))
	}
	p.class = class
	c.graph.classes[class].components = append(c.graph.classes[class].components, p)
}

func (c *componentClassifier) class(p *component) *startClass {
	requests := slices.Concat(p.pods.requests, p.endpointRequests)
	known, _ := namespaceLabels(c.snapshot, p.namespace)
	carried := map[label]bool{}
	for _, l := range c.namespace.of(ofNamespace, known) {
		carried[l] = true
	}
	for _, q := range requests {
		for _, l := range c.object.of(ofObject, q.subject.Labels) {
			carried[l] = true
		}
	}
	found, err := dependencies(c.matcher, requests)
	if err != nil {
		c.graph.work.fail(err)
	}
	return &startClass{dependencies: found, network: p.pods.network, labels: slices.Collect(maps.Keys(carried))}
}

// signature is the same for components that all webhooks treat alike.
func (c *componentClassifier) signature(p *component) string {
	var b []byte
	if c.byName {
		b = strconv.AppendQuote(b, p.namespace)
	}
	known, exists := namespaceLabels(c.snapshot, p.namespace)
	b = strconv.AppendBool(b, exists)
	b = c.namespace.appendSignature(b, known)
	pods, seen := c.signatures[p.pods]
	if !seen {
		pods = strconv.FormatBool(p.pods.network) + string(c.appendRequests(nil, p.pods.requests))
		c.signatures[p.pods] = pods
	}
	return string(c.appendRequests(append(b, pods...), p.endpointRequests))
}

func (c *componentClassifier) appendRequests(b []byte, requests []requestSpec) []byte {
	for _, q := range requests {
		b = strconv.AppendQuote(b, q.what)
		b = c.object.appendSignature(b, q.subject.Labels)
	}
	return b
}
