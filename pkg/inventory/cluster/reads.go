package cluster

import (
	"maps"
	"slices"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// reads is what the webhooks read of what is watched in the whole cluster: Services and
// Pods come and go all the time, and most of that decides nothing about a request.
type reads struct {
	mu sync.Mutex
	// services are those that webhooks call, and namespaces those of the backends
	// whose Pods it shows.
	services   map[inventory.Key]bool
	namespaces map[string]bool
	// missing are the namespaces and, apart, the names of the Services among them that are not
	// there: of others there, or called so, one may be meant.
	missing map[inventory.Key]bool
}

func (n *reads) counts(r resource, object any) bool {
	if r.counts == nil {
		return true
	}
	m, ok := object.(named)
	n.mu.Lock()
	defer n.mu.Unlock()
	return ok && r.counts(n, m)
}

// calls reports whether a webhook calls the Service, or may mean it.
func (n *reads) calls(service named) bool {
	return n.services[keyOf(service)] || n.missing[inventory.Key{Namespace: service.GetNamespace()}] ||
		n.missing[inventory.Key{Name: service.GetName()}]
}

func (n *reads) callsServiceOf(slice named) bool {
	labels := slice.(*discoveryv1.EndpointSlice).Labels
	return n.services[inventory.Key{Namespace: slice.GetNamespace(), Name: labels[discoveryv1.LabelServiceName]}]
}

// nearBackend reports whether the object is in the namespace of a backend whose Pods are shown.
func (n *reads) nearBackend(object named) bool { return n.namespaces[object.GetNamespace()] }

// ofSystem reports whether nodes may need the workload.
func (*reads) ofSystem(workload named) bool {
	return slices.Contains(inventory.SystemNamespaces, workload.GetNamespace())
}

// ofSystemOrNear reports whether nodes may need the workload, or a webhook runs near it.
func (n *reads) ofSystemOrNear(workload named) bool {
	return n.ofSystem(workload) || n.nearBackend(workload)
}

// follow derives what the webhooks of the Snapshot read, and reports whether that is other
// than before: then objects may have changed that did not count.
func (n *reads) follow(s *inventory.Snapshot) (other bool) {
	services, namespaces, missing := calledServices(s), map[string]bool{}, map[inventory.Key]bool{}
	for key := range services {
		namespaces[key.Namespace] = true
		if _, exists := s.Services[key]; !exists {
			missing[inventory.Key{Namespace: key.Namespace}], missing[inventory.Key{Name: key.Name}] = true, true
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	other = !maps.Equal(services, n.services) || !maps.Equal(missing, n.missing)
	n.services, n.namespaces, n.missing = services, namespaces, missing
	return other
}

// calledServices returns the Services that the webhooks call, also those behind an
// APIService that a webhook goes through.
func calledServices(s *inventory.Snapshot) map[inventory.Key]bool {
	out := map[inventory.Key]bool{}
	var last inventory.Key // most webhooks of a configuration call one Service
	for _, w := range s.Webhooks {
		switch b := &w.Backend; {
		case b.Kind == inventory.BackendService && b.Service.Key != last:
			last = b.Service.Key
			out[last] = true
		case b.Kind == inventory.BackendAPIServer:
			if called := s.State(*b).Service; called != b.Service {
				out[called.Key] = true
			}
		}
	}
	return out
}
