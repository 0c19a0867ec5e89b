package cluster

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// watchScope is a part of the cluster that is watched because of a webhook. The
// zero watchScope is the whole cluster.
type watchScope struct {
	// Key is that of a Service, or without a name that of a namespace.
	inventory.Key
	kind scopeKind
}

type scopeKind int

const (
	// webhookService is a Service that a webhook calls.
	webhookService scopeKind = iota
	// podsOfNamespace are the Pods of a namespace in which a backend runs.
	podsOfNamespace
	// nodeWorkloads are the workloads of a system namespace that nodes need.
	nodeWorkloads
)

func (s watchScope) compare(o watchScope) int {
	return cmp.Or(s.Key.Compare(o.Key), cmp.Compare(s.kind, o.kind))
}

// possible reports whether the scope can exist: a webhook may refer to any name,
// and a call with an impossible one fails.
func (s watchScope) possible() bool {
	return s == (watchScope{}) || isLabel(s.Namespace) && (s.Name == "" || isLabel(s.Name))
}

func isLabel(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// wantedScopes returns what is watched because of the webhooks: the Services that
// they call, the Pods of the namespaces from which a failure would close the API,
// and what nodes need of the system namespaces where a webhook could hold it up.
func wantedScopes(s *inventory.Snapshot) map[watchScope]bool {
	out := map[watchScope]bool{}
	for key := range references(s) {
		out[watchScope{key, webhookService}] = true
	}
	systems := present(s, inventory.SystemNamespaces)
	matcher := admission.New(s)
	for i := range s.Webhooks {
		w := &s.Webhooks[i]
		if !w.FailsClosed() || w.Backend.Kind == inventory.BackendURL {
			continue
		}
		out[watchScope{inventory.Key{Namespace: s.State(w.Backend).Service.Namespace}, podsOfNamespace}] = true
		systems = slices.DeleteFunc(systems, func(namespace string) bool { // one webhook is enough
			blocks := matcher.BlocksPods(w, namespace)
			if blocks {
				out[watchScope{inventory.Key{Namespace: namespace}, nodeWorkloads}] = true
			}
			return blocks
		})
	}
	return out
}

// present returns those of the namespaces that exist, or may exist.
func present(s *inventory.Snapshot, namespaces []string) []string {
	return slices.DeleteFunc(slices.Clone(namespaces), func(name string) bool {
		_, exists := s.Namespaces[name]
		return s.NamespacesKnown && !exists
	})
}

// references returns the Services that the webhooks call, also those behind an
// APIService that a webhook goes through.
func references(s *inventory.Snapshot) map[inventory.Key]bool {
	out := map[inventory.Key]bool{}
	for i := range s.Webhooks {
		switch b := &s.Webhooks[i].Backend; b.Kind {
		case inventory.BackendService:
			out[b.Service.Key()] = true
		case inventory.BackendAPIServer:
			if called := s.State(*b).Service; called != b.Service {
				out[called.Key()] = true
			}
		}
	}
	return out
}
