package classify

import (
	"fmt"
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// part is something that has to start: the Pods behind a Service that webhooks
// are served by, or what every Pod needs: what its node runs, and DNS.
type part struct {
	// name completes "the Pods of …".
	name      string
	namespace string
	// needs are the requests without which it does not come up.
	needs []need
	// network says that it starts only after what nodes and names need.
	network bool
	// use completes "the Pods of … need it …", where every Pod does.
	use string
}

// need is a request and what it does.
type need struct {
	request inventory.Request
	what    string
	// verdict is that of the webhook that refuses it.
	verdict inventory.Verdict
}

// certain reports whether the webhook certainly refuses the request. Else
// labels of the namespace decide that are not known.
func (n need) certain() bool { return n.verdict.Called == inventory.Yes }

// possible is true of all that a webhook may refuse.
func (need) possible() bool { return true }

// blocker is a webhook that can keep others from starting.
type blocker struct {
	profile *Profile
	// blocks are the parts that it keeps from starting, and what it refuses.
	blocks map[*part]need
}

// findDeadlocks looks for the cycles in which webhooks with failurePolicy Fail
// keep what serves them from starting.
func findDeadlocks(s *inventory.Snapshot, profiles []Profile) {
	byService := map[inventory.Key][]*blocker{}
	for i := range profiles {
		if w := &profiles[i]; mayBlock(w) {
			key := w.State.Service.Key()
			byService[key] = append(byService[key], &blocker{w, map[*part]need{}})
		}
	}
	if len(byService) == 0 {
		return
	}
	g := newStartGraph(s, byService)
	for key, blockers := range byService {
		for _, b := range blockers {
			b.profile.Deadlock = g.cycle(g.backends[key], b)
		}
	}
}

// starting says what is refused with each of inventory.PodWrites.
var starting = map[inventory.Resource]string{
	{Name: "pods"}:                                  "the Pods of",
	{Name: "pods", Subresource: "binding"}:          "to let the scheduler place the Pods of",
	{Name: "pods", Subresource: "status"}:           "to let the kubelet report on the Pods of",
	{Name: "serviceaccounts", Subresource: "token"}: "a token to the Pods of",
}

// What running Pods need written to be called.
var (
	endpointSlices = inventory.Resource{Group: "discovery.k8s.io", Name: "endpointslices"}
	leases         = inventory.Resource{Group: "coordination.k8s.io", Name: "leases"}
)

// mayBlock reports whether the webhook could keep anything from starting: it
// fails closed, runs in the cluster, and is called for what starts.
func mayBlock(p *Profile) bool {
	if p.Type == inventory.Conversion || !p.FailsClosed() || p.Webhook.Backend.Kind == inventory.BackendURL {
		return false
	}
	return slices.ContainsFunc(p.Reached, func(r inventory.Reached) bool {
		return starting[r.Resource] != "" || r.Resource == endpointSlices || r.Resource == leases
	})
}

// startGraph knows what needs what to start.
type startGraph struct {
	backends map[inventory.Key]*part
	// nodes are what every Pod needs: what runs on its node, and DNS.
	nodes []*part
	// parts are everything that has to start, in a stable order.
	parts []*part
	// waits are what a part waits for because of a webhook.
	waits map[*part][]wait
}

// wait says that a part starts only after another one.
type wait struct {
	part *part
	// because is the webhook that makes it wait; nil where every Pod needs the
	// other part.
	because *blocker
}

func newStartGraph(s *inventory.Snapshot, byService map[inventory.Key][]*blocker) *startGraph {
	g := &startGraph{backends: map[inventory.Key]*part{}, waits: map[*part][]wait{}}
	for _, w := range s.Workloads {
		if use := useOf(w); use != "" && !w.Static {
			g.nodes = append(g.nodes, &part{name: w.String(), namespace: w.Namespace, needs: podNeeds(s, w.Namespace, w.PodLabels), use: use})
		}
	}
	g.parts = slices.Clone(g.nodes)
	keys := slices.SortedFunc(maps.Keys(byService), inventory.Key.Compare)
	for _, key := range keys {
		if service, known := s.Services[key]; known {
			if p := backendPart(s, service); p != nil {
				g.backends[key] = p
				g.parts = append(g.parts, p)
			}
		}
	}
	for _, key := range keys {
		if backend := g.backends[key]; backend != nil {
			g.link(backend, byService[key])
		}
	}
	return g
}

// useOf says what every Pod needs the workload for, "" if it does not.
func useOf(w inventory.Workload) string {
	switch {
	case w.NodeCritical:
		return "on their node"
	case w.ClusterDNS:
		return "to resolve names"
	}
	return ""
}

// link asks what the webhooks of a backend keep from starting.
func (g *startGraph) link(backend *part, blockers []*blocker) {
	for _, p := range g.parts {
		var first *blocker
		for _, b := range blockers {
			if refused, keeps := b.keeps(p); keeps {
				b.blocks[p] = refused
				if first == nil || refused.certain() && !first.blocks[p].certain() {
					first = b
				}
			}
		}
		if first != nil {
			g.waits[p] = append(g.waits[p], wait{backend, first})
		}
	}
}

// keeps says what the webhook keeps the part from, if anything: what it
// certainly refuses before what it refuses unless a label that is not known
// exempts the namespace.
func (b *blocker) keeps(p *part) (refused need, keeps bool) {
	for _, n := range p.needs {
		n.verdict = b.profile.Reaches(n.request)
		switch {
		case n.certain():
			return n, true
		case !keeps && presumed(n.verdict):
			refused, keeps = n, true
		}
	}
	return refused, keeps
}

// cycle looks for the ways from what the webhook needs to start back to what it
// keeps from starting; nil if there is none. A certain one is told rather than a
// possible one; the namespaces are those of all.
func (g *startGraph) cycle(own *part, b *blocker) *Deadlock {
	if own == nil || len(b.blocks) == 0 {
		return nil
	}
	possible := g.search(own, b, need.possible)
	certain := g.search(own, b, need.certain)
	if certain == nil {
		return possible
	}
	certain.Certain = true
	certain.Namespaces = possible.Namespaces
	return certain
}

// search looks for the ways that the refusals which count make.
func (g *startGraph) search(own *part, b *blocker, counts func(need) bool) *Deadlock {
	var found *Deadlock
	via := map[*part]hop{own: {}}
	for queue := []*part{own}; len(queue) > 0; queue = queue[1:] {
		p := queue[0]
		if refused, blocks := b.blocks[p]; blocks && counts(refused) {
			if found == nil {
				found = &Deadlock{Steps: append(steps(via, p), fmt.Sprintf("this webhook refuses %s %s%s%s", refused.what, p.name, itself(p, own), refused.unless(b)))}
			}
			found.add(p.namespace, refused.request.Resource)
		}
		for _, next := range g.after(p) {
			if _, seen := via[next.part]; !seen && (next.because == nil || counts(next.because.blocks[p])) {
				via[next.part] = hop{p, next}
				queue = append(queue, next.part)
			}
		}
	}
	return found
}

// unless says what would keep the webhook from refusing it; "" where nothing
// would.
func (n need) unless(b *blocker) string {
	if n.certain() {
		return ""
	}
	return unless(*b.profile, []string{n.request.Namespace})
}

// hop is how a part was come to.
type hop struct {
	from *part
	wait
}

// steps tells the way to the part.
func steps(via map[*part]hop, p *part) []string {
	var out []string
	for h := via[p]; h.from != nil; h = via[h.from] {
		out = append(out, h.String())
	}
	slices.Reverse(out)
	return out
}

// String says why the one waits for the other.
func (h hop) String() string {
	if h.because == nil {
		return fmt.Sprintf("the Pods of %s need %s %s", h.from.name, h.part.name, h.part.use)
	}
	w, refused := h.because.profile, h.because.blocks[h.from]
	return fmt.Sprintf("webhook %s of %s, which %s serves, refuses %s %s%s", w.Name, w.Configuration, h.part.name, refused.what, h.from.name, refused.unless(h.because))
}

func itself(p, own *part) string {
	if p == own {
		return ", which serves it"
	}
	return ""
}

// after returns what the part waits for.
func (g *startGraph) after(p *part) []wait {
	out := g.waits[p]
	if p.network {
		for _, n := range g.nodes {
			out = append(out, wait{part: n})
		}
	}
	return out
}

// backendPart is what runs behind a Service; nil if nothing does that
// admission could keep from starting: static Pods, or what the Service does
// not select. Where the input lacks the Pods, they carry at least the labels
// that the Service selects.
func backendPart(s *inventory.Snapshot, service inventory.Service) *part {
	if len(service.Selector) == 0 {
		return nil
	}
	out := &part{name: "Service " + service.Key.String(), namespace: service.Namespace}
	workloads := s.Behind(service)
	if len(workloads) == 0 {
		out.network = true
		out.needs = podNeeds(s, service.Namespace, service.Selector)
	}
	for _, w := range workloads {
		if w.Static {
			return nil
		}
		if w.Kind != inventory.KindPod { // a Pod's name says less than its Service's
			out.name = w.String()
		}
		out.network = out.network || !w.HostNetwork
		out.needs = append(out.needs, podNeeds(s, w.Namespace, w.PodLabels)...)
	}
	out.needs = append(out.needs, reachNeeds(s, service)...)
	return out
}

// podNeeds is what a Pod needs to run.
func podNeeds(s *inventory.Snapshot, namespace string, labels map[string]string) []need {
	if labels == nil {
		labels = unlabeled
	}
	var questions []question
	for _, w := range inventory.PodWrites {
		subject := inventory.Subject{Namespace: namespace, Labels: unlabeled}
		if w.Labeled {
			subject.Labels = labels
		}
		questions = append(questions, question{w.Operation, w.Resource, subject, starting[w.Resource]})
	}
	return needs(s, questions)
}

// reachNeeds is what a running Pod needs to be called.
func reachNeeds(s *inventory.Snapshot, service inventory.Service) []need {
	labels := maps.Clone(service.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[discoveryv1.LabelServiceName] = service.Name
	return needs(s, []question{
		{inventory.Update, endpointSlices, inventory.Subject{Namespace: service.Namespace, Labels: labels}, "the endpoints of"},
		{inventory.Update, leases, inventory.Subject{Namespace: service.Namespace, Labels: unlabeled}, "the leases by which a leader is elected among the Pods of"},
	})
}

type question struct {
	operation inventory.Operation
	resource  inventory.Resource
	subject   inventory.Subject
	what      string
}

func needs(s *inventory.Snapshot, questions []question) []need {
	var out []need
	for _, q := range questions {
		if request, err := s.Request(string(q.operation), q.resource.String(), q.subject); err == nil {
			out = append(out, need{request: request, what: q.what})
		}
	}
	return out
}
