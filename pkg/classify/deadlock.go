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

// component is something that has to start: the Pods behind a Service that webhooks
// are served by, or what every Pod needs: what its node runs, and DNS.
type component struct {
	// name completes "the Pods of …".
	name      string
	namespace string
	// pods is what its Pods need to run, endpointRequests what they need besides to
	// be called.
	pods             *podNeeds
	endpointRequests []requestSpec
	// use completes "the Pods of … need it …", where every Pod does.
	use string
	// class is the index of its class in startGraph.classes.
	class int
}

// podNeeds is what the Pods behind Services need that select the same.
type podNeeds struct {
	// name is that of the workload; "" where its Service says more.
	name     string
	requests []requestSpec
	// network says that they start only after what nodes and names need.
	network bool
	// static says that no admission can keep them from starting.
	static bool
}

// dependency is a request that a component waits for, and what it does.
type dependency struct {
	request admission.Request
	what    string
	// verdict is that of the webhook that refuses it.
	verdict admission.Verdict
}

// certain reports whether the webhook certainly refuses the request. Else
// labels of the namespace decide that are not known.
func (d dependency) certain() bool { return d.verdict.Match == admission.Yes }

// possible is true of all that a webhook may refuse.
func (dependency) possible() bool { return true }

// blockingWebhook is a webhook that can keep others from starting, and what serves it.
type blockingWebhook struct {
	profile *Profile
	own     *component
}

// findDeadlocks looks for the cycles in which webhooks with failurePolicy Fail
// keep what serves them from starting. It costs a few requests for each class
// of webhooks and of Pods; see startGraph.
func findDeadlocks(w *work, m *admission.Matcher, profiles []Profile) {
	blocking := findBlockingWebhooks(w, m.Snapshot, pointers(profiles))
	if len(blocking) == 0 {
		return
	}
	g := newStartGraph(w, m, blocking)
	if w.ended {
		return
	}
	possible := g.deadlocks(dependency.possible)
	if len(possible) == 0 {
		return
	}
	certain := g.deadlocks(dependency.certain)
	if w.ended {
		return
	}
	for _, b := range blocking {
		d := possible[b]
		if sure := certain[b]; sure != nil { // reported rather than a possible one
			sure.Certain = true
			sure.Namespaces, sure.More = d.Namespaces, d.More
			d = sure
		}
		b.profile.Deadlock = d
	}
}

// refusedStart says what is refused with each of admission.PodWrites.
var refusedStart = map[inventory.Resource]string{
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

// findBlockingWebhooks returns the webhooks that can keep others from starting, and
// could be kept from it themselves.
func findBlockingWebhooks(w *work, s *inventory.Snapshot, profiles []*Profile) []*blockingWebhook {
	components := backendComponents{snapshot: s, byService: map[inventory.Key]*component{}, pods: map[selectedPods]*podNeeds{}}
	var out []*blockingWebhook
	for _, p := range profiles {
		if !w.step() {
			return nil
		}
		if !canBlock(p.Facts) {
			continue
		}
		if own := components.of(p.State.Service.Key); own != nil {
			out = append(out, &blockingWebhook{p, own})
		}
	}
	return out
}

func pointers(profiles []Profile) []*Profile {
	out := make([]*Profile, len(profiles))
	for i := range profiles {
		out[i] = &profiles[i]
	}
	return out
}

// canBlock reports whether the webhook could keep anything from starting: it
// fails closed, runs in the cluster, and is called for what starts.
func canBlock(p *Facts) bool {
	if p.Type == inventory.Conversion || !p.FailsClosed() || p.Backend.Kind == inventory.BackendURL {
		return false
	}
	return slices.ContainsFunc(p.Matched, func(r admission.MatchedResource) bool {
		return refusedStart[r.Resource] != "" || r.Resource == endpointSlices || r.Resource == leases
	})
}

// backendComponents are the components behind Services, each made once.
type backendComponents struct {
	snapshot  *inventory.Snapshot
	byService map[inventory.Key]*component
	pods      map[selectedPods]*podNeeds
}

// selectedPods names what Services of a namespace select.
type selectedPods struct{ namespace, selector string }

// of is what runs behind a Service; nil if nothing does that admission could
// keep from starting: static Pods, or what the Service does not select.
func (b backendComponents) of(key inventory.Key) *component {
	p, known := b.byService[key]
	if !known {
		p = b.build(key)
		b.byService[key] = p
	}
	return p
}

func (b backendComponents) build(key inventory.Key) *component {
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
	return &component{name: name, namespace: service.Namespace, pods: pods, endpointRequests: endpointRequests(service)}
}

// needsBehind is what the Pods need that a Service selects. Where the input
// lacks the Pods, they carry at least the labels that the Service selects. Equal
// Pods count once.
func needsBehind(s *inventory.Snapshot, service inventory.Service) *podNeeds {
	out := &podNeeds{}
	workloads := s.Behind(service)
	if len(workloads) == 0 {
		out.network = true
		out.requests = podRequests(service.Namespace, service.Selector)
	}
	equal := map[string]bool{}
	for _, w := range workloads {
		out.static = out.static || w.Static
		if w.Kind != "Pod" { // a Pod's name says less than its Service's
			out.name = w.String()
		}
		out.network = out.network || !w.HostNetwork
		if set := labels.Set(w.PodLabels).String(); !equal[set] {
			equal[set] = true
			out.requests = append(out.requests, podRequests(w.Namespace, w.PodLabels)...)
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

// everyPodsComponents are what every Pod needs.
func everyPodsComponents(s *inventory.Snapshot) []*component {
	var out []*component
	for _, w := range s.Workloads {
		if use := useOf(w); use != "" && !w.Static {
			pods := &podNeeds{requests: podRequests(w.Namespace, w.PodLabels)}
			out = append(out, &component{name: w.String(), namespace: w.Namespace, pods: pods, use: use})
		}
	}
	return out
}

// requestSpec is a request that a component needs, before it is built.
type requestSpec struct {
	operation admission.Operation
	resource  inventory.Resource
	subject   admission.Subject
	what      string
}

// podRequests is what a Pod needs to run.
func podRequests(namespace string, labels map[string]string) []requestSpec {
	if labels == nil {
		labels = unlabeled
	}
	var out []requestSpec
	for _, w := range admission.PodWrites {
		subject := admission.Subject{Namespace: namespace, Labels: unlabeled}
		if w.Labeled {
			subject.Labels = labels
		}
		out = append(out, requestSpec{w.Operation, w.Resource, subject, refusedStart[w.Resource]})
	}
	return out
}

// endpointRequests is what a running Pod needs to be called.
func endpointRequests(service inventory.Service) []requestSpec {
	labels := maps.Clone(service.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[discoveryv1.LabelServiceName] = service.Name
	return []requestSpec{
		{admission.Update, endpointSlices, admission.Subject{Namespace: service.Namespace, Labels: labels}, "the endpoints of"},
		{admission.Update, leases, admission.Subject{Namespace: service.Namespace, Labels: unlabeled}, "the leases by which a leader is elected among the Pods of"},
	}
}

// dependencies builds the requests. A request that the API server does not serve is
// no dependency.
func dependencies(m *admission.Matcher, requests []requestSpec) ([]dependency, error) {
	var out []dependency
	for _, q := range requests {
		if !slices.Contains(m.Operations(q.resource), q.operation) {
			continue
		}
		request, err := m.Request(q.operation, q.resource, q.subject)
		if err != nil {
			return nil, err
		}
		out = append(out, dependency{request: request, what: q.what})
	}
	return out, nil
}

// unless says what would keep the webhook from refusing it; "" where nothing
// would.
func (d dependency) unless(p *Profile) string {
	if d.certain() {
		return ""
	}
	return unless(p, []string{d.request.Namespace})
}

// namespaceLabels are those that are known of a namespace.
func namespaceLabels(s *inventory.Snapshot, name string) (known map[string]string, exists bool) {
	if n, ok := s.Namespaces[name]; ok {
		return n.Labels, true
	}
	return map[string]string{corev1.LabelMetadataName: name}, false
}
