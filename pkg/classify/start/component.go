// Package start answers what has to run before what: which webhooks refuse what
// the Pods behind others need to start and to be called. A Graph (graph.go) is made
// of what has to start (component.go), sorted into classes that no webhook
// distinguishes (classes.go). From it come the cycles in which nothing starts any
// more (deadlock.go), the order in which what is down comes back (order.go) and what
// needs what (needs.go).
package start

import (
	"context"
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Webhook is a webhook as far as others may wait for it.
type Webhook struct {
	*inventory.Webhook
	// Service is what serves it.
	Service inventory.Key
	// Key is its admission.MatchKey.
	Key string
}

// Step counts a step; false says that the context ended, so that the caller returns
// with what it has.
type Step func() bool

// askEvery steps take some 10 µs.
const askEvery = 64

// Steps returns the Step that ends with the context.
func Steps(ctx context.Context) Step {
	steps := 0
	return func() bool {
		steps++
		return steps%askEvery != 0 || ctx.Err() == nil
	}
}

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

// CanBlock reports whether the webhook, which matches these resources, could keep
// anything from starting that it waits for: it fails closed, runs in the cluster, and
// is called for what starts.
func CanBlock(w *inventory.Webhook, matched []admission.MatchedResource) bool {
	if w.Type == inventory.Conversion || !w.FailsClosed() || w.Backend.Kind == inventory.BackendURL {
		return false
	}
	return slices.ContainsFunc(matched, func(r admission.MatchedResource) bool { return what[r.Resource] != "" })
}

// component is something that has to start: the Pods behind a Service that webhooks
// are served by, or what every Pod needs: what its node runs, and DNS.
type component struct {
	// name completes "the Pods of …".
	name      string
	namespace string
	pods      *pods
	// endpoints are the labels of its EndpointSlices, nil without any.
	endpoints map[string]string
	// use completes "the Pods of … need it …", where every Pod does.
	use string
	// class is the index of its class in Graph.classes.
	class int
}

// pods are those behind Services that select the same.
type pods struct {
	// name is that of the workload; "" where its Service says more.
	name string
	// labels are those of the Pods, each set once: unknown is one where the input
	// lacks their Service. There are none where no admission can keep them from
	// starting: they are static, or no Service selects them.
	labels  []map[string]string
	unknown bool
	// network says that they start only after what nodes and names need.
	network bool
}

// behind is what runs behind a Service, made once.
func (b *builder) behind(key inventory.Key) *component {
	c, known := b.services[key]
	if !known {
		c = b.component(key)
		b.services[key] = c
	}
	return c
}

func (b *builder) component(key inventory.Key) *component {
	c := &component{name: "Service " + key.String(), namespace: key.Namespace}
	service, known := b.matcher.Snapshot.Services[key]
	switch {
	case !known:
		c.pods = &pods{labels: []map[string]string{nil}, unknown: true}
		return c
	case len(service.Selector) == 0:
		c.pods = &pods{}
		return c
	}
	selected := inventory.Key{Namespace: service.Namespace, Name: labels.Set(service.Selector).String()}
	c.pods, known = b.selected[selected]
	if !known {
		c.pods = podsBehind(b.matcher.Snapshot, service)
		b.selected[selected] = c.pods
	}
	if len(c.pods.labels) == 0 {
		return c
	}
	if c.pods.name != "" {
		c.name = c.pods.name
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
	out := &pods{}
	known := map[string]bool{}
	for _, w := range workloads {
		if w.Static {
			return &pods{}
		}
		if w.Kind != "Pod" { // a Pod's name says less than its Service's
			out.name = w.String()
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
		case w.NodeCritical:
			use = "on their node"
		case w.ClusterDNS:
			use = "to resolve names"
		}
		if use != "" && !w.Static {
			out = append(out, &component{name: w.String(), namespace: w.Namespace, pods: &pods{labels: []map[string]string{labelsOf(w)}}, use: use})
		}
	}
	return out
}

// requests are those that the component needs to be let through. A request that the
// API server does not serve is not needed.
func (b *builder) requests(c *component) []admission.Request {
	var out []admission.Request
	add := func(w admission.PodWrite, labelSets []map[string]string) {
		if !slices.Contains(b.matcher.Operations(w.Resource), w.Operation) {
			return
		}
		if !w.Labeled && len(labelSets) > 0 {
			labelSets = []map[string]string{admission.Unlabeled}
		}
		for _, set := range labelSets {
			request, err := b.matcher.Request(w.Operation, w.Resource, admission.Subject{Namespace: c.namespace, Labels: set})
			if err != nil {
				b.err, b.ended = err, true
				return
			}
			out = append(out, request)
		}
	}
	for _, w := range admission.PodWrites {
		add(w, c.pods.labels)
	}
	if c.endpoints != nil {
		for _, w := range endpointWrites {
			add(w, []map[string]string{c.endpoints})
		}
	}
	return out
}
