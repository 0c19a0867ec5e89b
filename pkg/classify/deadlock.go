package classify

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// part is something that has to start: the Pods behind a Service that webhooks
// are served by, or what every Pod needs: what its node runs, and DNS.
type part struct {
	// name completes "the Pods of …".
	name      string
	namespace string
	// pods is what its Pods need to run, reach what they need to be called then.
	pods  *podNeeds
	reach []question
	// use completes "the Pods of … need it …", where every Pod does.
	use string
	// class is the place of its class in the graph.
	class int
}

// podNeeds is what the Pods behind Services need that select the same.
type podNeeds struct {
	// name is that of the workload; "" where its Service says more.
	name      string
	questions []question
	// network says that they start only after what nodes and names need.
	network bool
	// static says that no admission can keep them from starting.
	static bool
}

// need is a request and what it does.
type need struct {
	request admission.Request
	what    string
	// verdict is that of the webhook that refuses it.
	verdict admission.Verdict
}

// certain reports whether the webhook certainly refuses the request. Else
// labels of the namespace decide that are not known.
func (n need) certain() bool { return n.verdict.Match == admission.Yes }

// possible is true of all that a webhook may refuse.
func (need) possible() bool { return true }

// blocker is a webhook that can keep others from starting, and what serves it.
type blocker struct {
	profile *Profile
	own     *part
}

// findDeadlocks looks for the cycles in which webhooks with failurePolicy Fail
// keep what serves them from starting. It costs a few questions for each class
// of webhooks and of Pods; see startGraph.
func findDeadlocks(w *work, m *admission.Matcher, profiles []Profile) {
	blockers := findBlockers(w, m.Snapshot, profiles)
	if len(blockers) == 0 {
		return
	}
	g := newStartGraph(w, m, blockers)
	if w.ended {
		return
	}
	possible := g.deadlocks(need.possible)
	if len(possible) == 0 {
		return
	}
	certain := g.deadlocks(need.certain)
	if w.ended {
		return
	}
	for _, b := range blockers {
		d := possible[b]
		if sure := certain[b]; sure != nil { // told rather than a possible one
			sure.Certain = true
			sure.Namespaces, sure.More = d.Namespaces, d.More
			d = sure
		}
		b.profile.Deadlock = d
	}
}

// starting says what is refused with each of admission.PodWrites.
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

// findBlockers returns the webhooks that can keep others from starting, and
// could be kept from it themselves.
func findBlockers(w *work, s *inventory.Snapshot, profiles []Profile) []*blocker {
	parts := backendParts{snapshot: s, byService: map[inventory.Key]*part{}, pods: map[selectedPods]*podNeeds{}}
	var out []*blocker
	for i := range profiles {
		p := &profiles[i]
		if !w.step() {
			return nil
		}
		if !mayBlock(p) {
			continue
		}
		if own := parts.of(p.State.Service.Key()); own != nil {
			out = append(out, &blocker{p, own})
		}
	}
	return out
}

// mayBlock reports whether the webhook could keep anything from starting: it
// fails closed, runs in the cluster, and is called for what starts.
func mayBlock(p *Profile) bool {
	if p.Type == inventory.Conversion || !p.FailsClosed() || p.Webhook.Backend.Kind == inventory.BackendURL {
		return false
	}
	return slices.ContainsFunc(p.Matched, func(r admission.MatchedResource) bool {
		return starting[r.Resource] != "" || r.Resource == endpointSlices || r.Resource == leases
	})
}

// backendParts are the parts behind Services, each made once.
type backendParts struct {
	snapshot  *inventory.Snapshot
	byService map[inventory.Key]*part
	pods      map[selectedPods]*podNeeds
}

// selectedPods names what Services of a namespace select.
type selectedPods struct{ namespace, selector string }

// of is what runs behind a Service; nil if nothing does that admission could
// keep from starting: static Pods, or what the Service does not select.
func (b backendParts) of(key inventory.Key) *part {
	p, known := b.byService[key]
	if !known {
		p = b.build(key)
		b.byService[key] = p
	}
	return p
}

func (b backendParts) build(key inventory.Key) *part {
	service, known := b.snapshot.Services[key]
	if !known || len(service.Selector) == 0 {
		return nil
	}
	selected := selectedPods{service.Namespace, labels.Set(service.Selector).String()}
	pods := b.pods[selected]
	if pods == nil {
		pods = needsBehind(b.snapshot, service)
		b.pods[selected] = pods
	}
	if pods.static {
		return nil
	}
	name := pods.name
	if name == "" {
		name = "Service " + key.String()
	}
	return &part{name: name, namespace: service.Namespace, pods: pods, reach: reachQuestions(service)}
}

// needsBehind is what the Pods need that a Service selects. Where the input
// lacks the Pods, they carry at least the labels that the Service selects. Equal
// Pods count once.
func needsBehind(s *inventory.Snapshot, service inventory.Service) *podNeeds {
	out := &podNeeds{}
	workloads := s.Behind(service)
	if len(workloads) == 0 {
		out.network = true
		out.questions = podQuestions(service.Namespace, service.Selector)
	}
	equal := map[string]bool{}
	for _, w := range workloads {
		out.static = out.static || w.Static
		if w.Kind != inventory.KindPod { // a Pod's name says less than its Service's
			out.name = w.String()
		}
		out.network = out.network || !w.HostNetwork
		if set := labels.Set(w.PodLabels).String(); !equal[set] {
			equal[set] = true
			out.questions = append(out.questions, podQuestions(w.Namespace, w.PodLabels)...)
		}
	}
	return out
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

// everyPodsParts are what every Pod needs.
func everyPodsParts(s *inventory.Snapshot) []*part {
	var out []*part
	for _, w := range s.Workloads {
		if use := useOf(w); use != "" && !w.Static {
			pods := &podNeeds{questions: podQuestions(w.Namespace, w.PodLabels)}
			out = append(out, &part{name: w.String(), namespace: w.Namespace, pods: pods, use: use})
		}
	}
	return out
}

// question is what a request is about that a part needs.
type question struct {
	operation inventory.Operation
	resource  inventory.Resource
	subject   admission.Subject
	what      string
}

// podQuestions is what a Pod needs to run.
func podQuestions(namespace string, labels map[string]string) []question {
	if labels == nil {
		labels = unlabeled
	}
	var out []question
	for _, w := range admission.PodWrites {
		subject := admission.Subject{Namespace: namespace, Labels: unlabeled}
		if w.Labeled {
			subject.Labels = labels
		}
		out = append(out, question{w.Operation, w.Resource, subject, starting[w.Resource]})
	}
	return out
}

// reachQuestions is what a running Pod needs to be called.
func reachQuestions(service inventory.Service) []question {
	labels := maps.Clone(service.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[discoveryv1.LabelServiceName] = service.Name
	return []question{
		{inventory.Update, endpointSlices, admission.Subject{Namespace: service.Namespace, Labels: labels}, "the endpoints of"},
		{inventory.Update, leases, admission.Subject{Namespace: service.Namespace, Labels: unlabeled}, "the leases by which a leader is elected among the Pods of"},
	}
}

// needs returns the requests of the questions. What the API server does not serve,
// nothing waits for.
func needs(m *admission.Matcher, questions []question) ([]need, error) {
	var out []need
	for _, q := range questions {
		if !slices.Contains(m.Operations(q.resource), q.operation) {
			continue
		}
		request, err := m.Request(q.operation, q.resource, q.subject)
		if err != nil {
			return nil, err
		}
		out = append(out, need{request: request, what: q.what})
	}
	return out, nil
}

// unless says what would keep the webhook from refusing it; "" where nothing
// would.
func (n need) unless(p *Profile) string {
	if n.certain() {
		return ""
	}
	return unless(p, []string{n.request.Namespace})
}

// namespaceLabels are those that are known of a namespace.
func namespaceLabels(s *inventory.Snapshot, name string) (known map[string]string, exists bool) {
	if n, ok := s.Namespaces[name]; ok {
		return n.Labels, true
	}
	return map[string]string{corev1.LabelMetadataName: name}, false
}
