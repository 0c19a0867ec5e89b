package start

import (
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// endpointWrites are the requests without which no running Pod is called.
var endpointWrites = []admission.PodWrite{
	{Resource: inventory.Resource{Group: "discovery.k8s.io", Name: "endpointslices"}, Operation: admission.Update, Labeled: true},
	{Resource: inventory.Resource{Group: "coordination.k8s.io", Name: "leases"}, Operation: admission.Update},
}

// what says what is refused with each of admission.PodWrites and endpointWrites: it
// completes "refuses … NAME".
var what = map[inventory.Resource]string{
	{Name: "pods"}:                                      "the Pods of",
	{Name: "pods", Subresource: "binding"}:              "to let the scheduler place the Pods of",
	{Name: "pods", Subresource: "status"}:               "to let the kubelet report on the Pods of",
	{Name: "serviceaccounts", Subresource: "token"}:     "a token to the Pods of",
	{Group: "discovery.k8s.io", Name: "endpointslices"}: "the endpoints of",
	{Group: "coordination.k8s.io", Name: "leases"}:      "the leases by which a leader is elected among the Pods of",
}

// component is something that has to start: the Pods behind a Service that webhooks
// are served by, or what every Pod needs: what its node runs, and DNS.
type component struct {
	// name completes "the Pods of …".
	name      string
	namespace string
	*pods
	// endpoints are the labels of its EndpointSlices, nil without any.
	endpoints map[string]string
	// use completes "the Pods of … need it …", where every Pod does.
	use string
	// class is the index of its class in Graph.classes, below 0 before it is sorted.
	class int
}

// pods are those behind Services that select the same.
type pods struct {
	// workload is the name of it; "" where the Service says more.
	workload string
	// labels are those of the Pods, each set once: unknown is one where the input
	// lacks their Service. There are none where no admission can keep them from
	// starting: they are static, or no Service selects them.
	labels  []map[string]string
	unknown bool
	// network says that they start only after what nodes and names need.
	network bool
	// seen is what the selectors see of them, once one of their components is sorted.
	seen string
}

// behind is what runs behind a Service, made once.
func (g *Graph) behind(key inventory.Key) *component {
	if g.services[key] == nil {
		g.services[key] = g.component(key)
	}
	return g.services[key]
}

func (g *Graph) component(key inventory.Key) *component {
	c := &component{name: "Service " + key.String(), namespace: key.Namespace, class: unsorted}
	service, known := g.matcher.Snapshot.Services[key]
	switch {
	case !known:
		c.pods = &pods{labels: []map[string]string{nil}, unknown: true}
		return c
	case len(service.Selector) == 0:
		c.pods = &pods{}
		return c
	}
	selected := inventory.Key{Namespace: service.Namespace, Name: labels.Set(service.Selector).String()}
	if g.selected[selected] == nil {
		g.selected[selected] = podsBehind(g.matcher.Snapshot, service)
	}
	c.pods = g.selected[selected]
	if len(c.labels) == 0 {
		return c
	}
	if c.workload != "" {
		c.name = c.workload
	}
	c.endpoints = map[string]string{}
	maps.Copy(c.endpoints, service.Labels)
	c.endpoints[discoveryv1.LabelServiceName] = service.Name
	return c
}

// podsBehind are the Pods that a Service selects. Where the input lacks them, they
// carry at least the labels that it selects.
func podsBehind(s *inventory.Snapshot, service inventory.Service) *pods {
	workloads := s.Behind(service)
	if len(workloads) == 0 {
		return &pods{labels: []map[string]string{service.Selector}, network: true}
	}
	out, known := &pods{}, map[string]bool{}
	for _, w := range workloads {
		if w.Static {
			return &pods{}
		}
		if w.Kind != "Pod" { // a Pod's name says less than its Service's
			out.workload = w.String()
		}
		out.network = out.network || !w.HostNetwork
		if set := labels.Set(w.PodLabels).String(); !known[set] {
			known[set] = true
			out.labels = append(out.labels, labelsOf(w))
		}
	}
	return out
}

func labelsOf(w inventory.Workload) map[string]string {
	if w.PodLabels == nil {
		return admission.Unlabeled
	}
	return w.PodLabels
}

// everyPodNeeds are the components that every Pod needs.
func everyPodNeeds(s *inventory.Snapshot) []*component {
	var out []*component
	for _, w := range s.Workloads {
		use := ""
		switch {
		case w.Static:
		case w.NodeCritical:
			use = "on their node"
		case w.ClusterDNS:
			use = "to resolve names"
		}
		if use != "" {
			out = append(out, &component{name: w.String(), namespace: w.Namespace, pods: &pods{labels: []map[string]string{labelsOf(w)}}, use: use, class: unsorted})
		}
	}
	return out
}

// requests are those that the component needs to be let through. A request that the
// API server does not serve is not needed.
func (g *Graph) requests(c *component) []admission.Request {
	var out []admission.Request
	add := func(w admission.PodWrite, labelSets []map[string]string) {
		if !slices.Contains(g.matcher.Operations(w.Resource), w.Operation) {
			return
		}
		if !w.Labeled && len(labelSets) > 0 {
			labelSets = []map[string]string{admission.Unlabeled}
		}
		for _, set := range labelSets {
			request, err := g.matcher.Request(w.Operation, w.Resource, admission.Subject{Namespace: c.namespace, Labels: set})
			if err != nil {
				g.err, g.ended = err, true
				return
			}
			out = append(out, request)
		}
	}
	for _, w := range admission.PodWrites {
		add(w, c.labels)
	}
	if c.endpoints != nil {
		for _, w := range endpointWrites {
			add(w, []map[string]string{c.endpoints})
		}
	}
	return out
}
