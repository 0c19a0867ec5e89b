package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// watchScope is a part of the cluster that is watched because of webhooks. The zero
// watchScope is the whole cluster.
type watchScope struct {
	kind      scopeKind
	namespace string
	// services are the names of the Services in question, separated by commas;
	// empty for kinds that cover a namespace.
	services string
}

type scopeKind int

const (
	// oneService is a Service by its name.
	oneService scopeKind = iota
	// servicesOfNamespace are Services that are watched with all others of their
	// namespace: no selector selects several by their names.
	servicesOfNamespace
	// endpointsOfServices are the EndpointSlices of some Services.
	endpointsOfServices
	// podsOfNamespace are the Pods of a namespace in which a backend runs.
	podsOfNamespace
	// nodeWorkloads are the workloads of a system namespace that nodes need.
	nodeWorkloads
)

const (
	// fewServices is how many Services of a namespace are watched one by one
	// rather than with all others of their namespace.
	fewServices = 3
	// manyServices is from how many Services on they are watched with all others
	// of their namespace, however many those are.
	manyServices = 100
	// selectedServices is how many Services one selector of EndpointSlices names:
	// the longest names make 6 kB of URL.
	selectedServices = 100
)

func (s watchScope) compare(o watchScope) int {
	return cmp.Or(cmp.Compare(s.namespace, o.namespace), cmp.Compare(s.kind, o.kind), cmp.Compare(s.services, o.services))
}

func (s watchScope) names() []string {
	if s.services == "" {
		return nil
	}
	return strings.Split(s.services, ",")
}

// keys are the Services of the scope.
func (s watchScope) keys() []inventory.Key {
	var out []inventory.Key
	for _, name := range s.names() {
		out = append(out, inventory.Key{Namespace: s.namespace, Name: name})
	}
	return out
}

// replaces reports whether both scopes are about the same kind of objects of one
// namespace, so that one takes the place of the other when references change.
func (s watchScope) replaces(o watchScope) bool {
	return s.namespace == o.namespace && (s.kind == o.kind || s.kind <= servicesOfNamespace && o.kind <= servicesOfNamespace)
}

// possible reports whether the scope can exist: a webhook may refer to any name,
// and a call with an impossible one fails.
func (s watchScope) possible() bool {
	return s == (watchScope{}) || isLabel(s.namespace) && !slices.ContainsFunc(s.names(), func(name string) bool { return !isLabel(name) })
}

func isLabel(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// wantedScopes returns what is watched because of the webhooks: the Services that
// they call, the Pods of the namespaces from which a failure would close the API,
// and what nodes need of the system namespaces where a webhook could hold it up.
// In crowded namespaces Services are watched by their names.
func wantedScopes(s *inventory.Snapshot, crowded map[string]bool) map[watchScope]bool {
	out := map[watchScope]bool{}
	for namespace, names := range references(s) {
		for _, scope := range serviceScopes(namespace, names, crowded[namespace]) {
			out[scope] = true
		}
	}
	systems := present(s, inventory.SystemNamespaces)
	matcher := admission.New(s)
	for i := range s.Webhooks {
		w := &s.Webhooks[i]
		if !w.FailsClosed() || w.Backend.Kind == inventory.BackendURL {
			continue
		}
		out[watchScope{kind: podsOfNamespace, namespace: s.State(w.Backend).Service.Namespace}] = true
		systems = slices.DeleteFunc(systems, func(namespace string) bool { // one webhook is enough
			blocks := matcher.BlocksPods(w, namespace)
			if blocks {
				out[watchScope{kind: nodeWorkloads, namespace: namespace}] = true
			}
			return blocks
		})
	}
	return out
}

// serviceScopes are the scopes of the Services of one namespace and of their
// EndpointSlices.
func serviceScopes(namespace string, services map[string]bool, crowded bool) []watchScope {
	var out []watchScope
	var names []string
	for _, name := range slices.Sorted(maps.Keys(services)) {
		if isLabel(name) {
			names = append(names, name)
			continue
		}
		out = append(out, watchScope{oneService, namespace, name}, watchScope{endpointsOfServices, namespace, name})
	}
	for chunk := range slices.Chunk(names, selectedServices) {
		out = append(out, watchScope{endpointsOfServices, namespace, strings.Join(chunk, ",")})
	}
	if len(names) > fewServices && (!crowded || len(names) >= manyServices) {
		return append(out, watchScope{servicesOfNamespace, namespace, strings.Join(names, ",")})
	}
	for _, name := range names {
		out = append(out, watchScope{oneService, namespace, name})
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

// references returns the names of the Services that the webhooks call by
// namespace, also of those behind an APIService that a webhook goes through.
func references(s *inventory.Snapshot) map[string]map[string]bool {
	out := map[string]map[string]bool{}
	add := func(key inventory.Key) {
		if out[key.Namespace] == nil {
			out[key.Namespace] = map[string]bool{}
		}
		out[key.Namespace][key.Name] = true
	}
	for i := range s.Webhooks {
		switch b := &s.Webhooks[i].Backend; b.Kind {
		case inventory.BackendService:
			add(b.Service.Key)
		case inventory.BackendAPIServer:
			if called := s.State(*b).Service; called != b.Service {
				add(called.Key)
			}
		}
	}
	return out
}
