package start

import (
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// need is a request that a controller, the scheduler or the kubelet makes for Pods to run
// and to be called.
type need struct {
	inventory.Resource
	admission.Operation
	// labeled says that what is written carries labels: of the Pod, or of the Service where it
	// is its endpoints.
	labeled, endpoints bool
	// leads says that Pods which serve before one of them leads run without it.
	leads bool
	// refused completes "refuses … NAME".
	refused string
}

// needs are the requests without which no Pod starts, as it is created, placed on a node,
// given a token and reported to run, and those without which no running Pod is called.
var needs = []need{
	{inventory.Resource{Name: "pods"}, admission.Create, true, false, false, "the Pods of"},
	{inventory.Resource{Name: "pods", Subresource: "binding"}, admission.Create, false, false, false, "to let the scheduler place the Pods of"},
	{inventory.Resource{Name: "serviceaccounts", Subresource: "token"}, admission.Create, false, false, false, "a token to the Pods of"},
	{inventory.Resource{Name: "pods", Subresource: "status"}, admission.Update, true, false, false, "to let the kubelet report on the Pods of"},
	{inventory.Resource{Group: "discovery.k8s.io", Name: "endpointslices"}, admission.Update, true, true, false, "the endpoints of"},
	{inventory.Resource{Group: "coordination.k8s.io", Name: "leases"}, admission.Update, false, true, true, "the leases of the Pods of"},
}

// needOf is the need for the resource, the zero need where no Pod has one.
func needOf(r inventory.Resource) need {
	if i := slices.IndexFunc(needs, func(n need) bool { return n.Resource == r }); i >= 0 {
		return needs[i]
	}
	return need{}
}

// component is something that has to start: the Pods behind a Service that webhooks
// are served by, or what every Pod needs: what its node runs, and DNS.
type component struct {
	// name completes "the Pods of …".
	name      string
	namespace string
	// labels are those of its Pods, each set once: unknown is one where the input lacks
	// their Service. There are none where no admission can keep them from starting: they
	// are static, or no Service selects them.
	labels  []map[string]string
	unknown bool
	// network says that they start only after what nodes and names need.
	network bool
	// endpoints are the labels of its EndpointSlices, nil without any.
	endpoints map[string]string
	// use completes "the Pods of … need it …", where every Pod does.
	use string
	// class is the index of its class in Graph.classes.
	class int
}

// backendOf is what runs behind a Service, made once.
func (g *Graph) backendOf(key inventory.Key) *component {
	if g.services[key] == nil {
		g.services[key] = g.component(key)
	}
	return g.services[key]
}

func (g *Graph) component(key inventory.Key) *component {
	s := g.matcher.Snapshot
	c := &component{name: "Service " + key.String(), namespace: key.Namespace}
	service, ok := s.Services[key]
	switch {
	case !ok:
		c.labels, c.unknown = []map[string]string{nil}, true
		return c
	case len(service.Selector) == 0:
		return c
	}
	c.endpoints = map[string]string{}
	maps.Copy(c.endpoints, service.Labels)
	c.endpoints[discoveryv1.LabelServiceName] = service.Name
	workloads := s.Behind(service)
	if len(workloads) == 0 { // they carry at least the labels that it selects
		c.labels, c.network = []map[string]string{service.Selector}, true
	}
	distinct := map[string]bool{}
	for _, w := range workloads {
		if w.Static {
			return &component{name: c.name, namespace: c.namespace}
		}
		if w.Kind != "Pod" { // a Pod's name says less than its Service's
			c.name = w.String()
		}
		c.network = c.network || !w.HostNetwork
		if set := labels.Set(w.PodLabels).String(); !distinct[set] {
			distinct[set] = true
			c.labels = append(c.labels, labelsOf(w.PodLabels))
		}
	}
	return c
}

func labelsOf(ofPods map[string]string) map[string]string {
	if ofPods == nil {
		return admission.Unlabeled
	}
	return ofPods
}

// everyPodNeeds are the components that every Pod needs.
func everyPodNeeds(s *inventory.Snapshot) []*component {
	var out []*component
	for i := range s.Workloads {
		w, use := &s.Workloads[i], ""
		switch {
		case w.Static:
		case w.NodeCritical:
			use = "on their node"
		case w.ClusterDNS:
			use = "to resolve names"
		}
		if use != "" {
			out = append(out, &component{
				name: w.String(), namespace: w.Namespace, labels: []map[string]string{labelsOf(w.PodLabels)}, use: use,
			})
		}
	}
	return out
}

// requests are those that the component needs to be let through. A request that the
// API server does not serve is not needed.
func (g *Graph) requests(c *component) []admission.Request {
	var out []admission.Request
	for _, n := range needs {
		sets := c.labels
		switch {
		case n.endpoints && c.endpoints == nil:
			continue
		case n.endpoints:
			sets = []map[string]string{c.endpoints}
		}
		if !n.labeled && len(sets) > 0 {
			sets = []map[string]string{admission.Unlabeled}
		}
		for _, set := range sets {
			if !slices.Contains(g.matcher.Operations(n.Resource), n.Operation) {
				continue
			}
			if request, err := g.matcher.Request(n.Operation, n.Resource,
				admission.Subject{Namespace: c.namespace, Labels: set}); err == nil {
				out = append(out, request)
			}
		}
	}
	return out
}
