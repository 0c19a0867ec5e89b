package cluster

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// scope is a kind of objects in one namespace, which is read because of webhooks.
type scope struct {
	schema.GroupResource
	namespace string
}

func (s scope) compare(o scope) int {
	return cmp.Or(cmp.Compare(s.namespace, o.namespace), cmp.Compare(s.Resource, o.Resource))
}

// wantedScopes returns what is read because of the webhooks: the Pods of the namespaces
// from which a failure would close the API, and what nodes need of the system namespaces
// where a webhook could hold it up.
func wantedScopes(m *admission.Matcher) map[scope]bool {
	out := map[scope]bool{}
	for key := range podNamespaces(m.Snapshot) {
		if len(validation.IsDNS1123Label(key.Namespace)) == 0 { // a webhook may name any
			out[scope{podResource, key.Namespace}] = true
		}
	}
	for _, namespace := range blockedSystems(m) {
		out[scope{daemonSetResource, namespace}] = true
		out[scope{deploymentResource, namespace}] = true
	}
	return out
}

// blockedSystems are the system namespaces whose Pods some webhook could hold up.
func blockedSystems(m *admission.Matcher) []string {
	var out []string
	systems := existing(m.Snapshot, inventory.SystemNamespaces)
	for _, w := range m.Snapshot.Webhooks {
		if len(systems) == 0 || !w.FailsClosed() || w.Backend.Kind == inventory.BackendURL {
			continue
		}
		systems = slices.DeleteFunc(systems, func(namespace string) bool { // one webhook is enough
			blocks := m.BlocksPods(w, namespace)
			if blocks {
				out = append(out, namespace)
			}
			return blocks
		})
	}
	return out
}

// existing returns those of the namespaces that exist, or may exist.
func existing(s *inventory.Snapshot, namespaces []string) []string {
	return slices.DeleteFunc(slices.Clone(namespaces), func(name string) bool {
		_, exists := s.Namespaces[name]
		return s.NamespacesKnown && !exists
	})
}
