package cluster

import (
	"maps"
	"slices"
	"strings"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// reads is what webhooks and policies, and the reader of the Snapshots, read of what is
// watched in the whole cluster. Services come and go, namespaces are relabeled and
// annotated all the time, and most of that decides nothing about a request.
type reads struct {
	mu sync.Mutex
	// services are those that webhooks call, and namespaces those from which a failure
	// would close the API.
	services   map[inventory.Key]bool
	namespaces map[string]bool
	// labels are the keys of labels of namespaces that selectors or the reader read, nil
	// before the first Snapshot, for which everything is read; everything says that a
	// matchCondition reads the namespace of the object, or the labels of an object that is
	// one.
	labels     map[string]bool
	everything bool
}

// counts reports whether a Snapshot shows the object.
func (n *reads) counts(r resource, object any) bool {
	if r.counts == nil {
		return true
	}
	m, ok := object.(metav1.Object)
	n.mu.Lock()
	defer n.mu.Unlock()
	return ok && r.counts(n, m)
}

// calls reports whether a webhook calls the Service.
func (n *reads) calls(service metav1.Object) bool { return n.services[keyOf(service)] }

// callsServiceOf reports whether a webhook calls the Service of the EndpointSlice.
func (n *reads) callsServiceOf(slice metav1.Object) bool {
	return n.services[inventory.Key{Namespace: slice.GetNamespace(), Name: slice.GetLabels()[discoveryv1.LabelServiceName]}]
}

// nearBackend reports whether the object is in a namespace from which a failure would
// close the API.
func (n *reads) nearBackend(object metav1.Object) bool { return n.namespaces[object.GetNamespace()] }

// ofSystem reports whether nodes may need the workload.
func (*reads) ofSystem(workload metav1.Object) bool {
	return slices.Contains(inventory.SystemNamespaces, workload.GetNamespace())
}

// shows reports whether a Snapshot shows the change of an object; before or after is nil
// of one that comes or goes.
func (n *reads) shows(r resource, before, after any) bool {
	was, wasThere := before.(metav1.Object)
	now, isThere := after.(metav1.Object)
	switch {
	case r.counts != nil:
		return n.counts(r, before) || n.counts(r, after)
	case r.GroupResource != namespaceResource || !wasThere || !isThere:
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.labels == nil || n.everything || (was.GetDeletionTimestamp() == nil) != (now.GetDeletionTimestamp() == nil) {
		return true
	}
	for key := range n.labels {
		old, had := was.GetLabels()[key]
		if value, has := now.GetLabels()[key]; value != old || has != had {
			return true
		}
	}
	return false
}

// follow derives what the webhooks and policies of the Snapshot read beside its reader,
// and reports whether that is other than before: then objects may have changed in what
// was not read.
func (n *reads) follow(s *inventory.Snapshot, byReader []string) (other bool) {
	next := reads{services: calledServices(s), namespaces: podNamespaces(s), labels: map[string]bool{}}
	for _, key := range byReader {
		next.labels[key] = true
	}
	for _, w := range s.Webhooks {
		next.addRegistration(&w.Registration)
	}
	for _, p := range s.Policies {
		next.addRegistration(&p.Registration)
		for _, b := range p.Bindings {
			next.addSelectors(&b.MatchResources)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	readLabels := n.labels == nil || n.everything // all of them
	for key := range next.labels {
		other = other || !readLabels && !n.labels[key]
	}
	other = other || next.everything && !readLabels || !maps.Equal(next.services, n.services) || !maps.Equal(next.namespaces, n.namespaces)
	n.services, n.namespaces, n.labels, n.everything = next.services, next.namespaces, next.labels, next.everything
	return other
}

func (n *reads) addRegistration(r *inventory.Registration) {
	n.addSelectors(&r.MatchResources)
	for _, c := range r.MatchConditions {
		n.everything = n.everything || strings.Contains(c.Expression, "namespaceObject") || strings.Contains(c.Expression, "labels") && coversNamespaces(r)
	}
}

// coversNamespaces reports whether rules cover namespaces or a subresource of them: the
// object of each has the labels of the namespace.
func coversNamespaces(r *inventory.Registration) bool {
	return slices.ContainsFunc([]string{"", "status", "finalize"}, func(subresource string) bool {
		return admission.RulesCover(r, inventory.Resource{Name: "namespaces", Subresource: subresource})
	})
}

func (n *reads) addSelectors(m *inventory.MatchResources) {
	n.add(m.NamespaceSelector)
	n.add(m.ObjectSelector) // of requests for namespaces
}

func (n *reads) add(s inventory.Selector) {
	if s.Raw == nil {
		return
	}
	for key := range s.Raw.MatchLabels {
		n.labels[key] = true
	}
	for _, e := range s.Raw.MatchExpressions {
		n.labels[e.Key] = true
	}
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

// podNamespaces are the namespaces of the backends whose failure closes the API.
func podNamespaces(s *inventory.Snapshot) map[string]bool {
	out := map[string]bool{}
	for _, w := range s.Webhooks {
		switch {
		case !w.FailsClosed() || w.Backend.Kind == inventory.BackendURL:
		case w.Backend.Kind == inventory.BackendAPIServer:
			out[s.State(w.Backend).Service.Namespace] = true
		default:
			out[w.Backend.Service.Namespace] = true
		}
	}
	return out
}
