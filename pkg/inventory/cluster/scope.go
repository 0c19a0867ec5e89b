package cluster

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// watchScope is a part of the cluster that is watched because of webhooks. The zero
// watchScope is the whole cluster.
type watchScope struct {
	kind scopeKind
	// namespace is empty for kinds that cover the cluster.
	namespace string
	// services are the names of the Services in question, separated by commas;
	// empty for kinds that cover a namespace or the cluster.
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
	// budgetsOfNamespace are the PodDisruptionBudgets of such a namespace.
	budgetsOfNamespace
	// networkPoliciesOfNamespace are its NetworkPolicies.
	networkPoliciesOfNamespace
	// nodeWorkloads are the workloads of a system namespace that nodes need.
	nodeWorkloads
	// servicesOfCluster and those after it are all objects of their kind of a
	// cluster that has few of them: one stream costs the API server less than one for
	// each namespace.
	servicesOfCluster
	endpointsOfCluster
	podsOfCluster
	budgetsOfCluster
	networkPoliciesOfCluster
)

// ofCluster are the scopes that are tried before any other.
var ofCluster = []watchScope{{kind: servicesOfCluster}, {kind: endpointsOfCluster}, {kind: podsOfCluster}, {kind: budgetsOfCluster}, {kind: networkPoliciesOfCluster}}

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

// keySet are Services by namespace and name, or namespaces by an empty name.
type keySet map[inventory.Key]bool

// keys are the Services that the scope names.
func (s watchScope) keys() keySet {
	out := keySet{}
	for _, name := range s.names() {
		out[inventory.Key{Namespace: s.namespace, Name: name}] = true
	}
	return out
}

// whole is the scope without the choice of Services.
func (s watchScope) whole() watchScope { return watchScope{kind: s.kind, namespace: s.namespace} }

// coversCluster reports whether the scope covers the whole cluster.
func (s watchScope) coversCluster() bool { return s == (watchScope{}) || s.kind >= servicesOfCluster }

// replaces reports whether the scope takes the place of the other for objects of
// one kind when references change.
func (s watchScope) replaces(o watchScope) bool {
	return s.namespace == o.namespace || o.coversCluster()
}

// possible reports whether the scope can exist: a webhook may refer to any name,
// and a call with an impossible one fails.
func (s watchScope) possible() bool {
	return s.coversCluster() || isLabel(s.namespace) && !slices.ContainsFunc(s.names(), func(name string) bool { return !isLabel(name) })
}

func isLabel(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// wantedScopes returns what is watched because of the webhooks, and the Services or
// namespaces that count in each scope: the Services that webhooks call, the Pods of
// the namespaces from which a failure would close the API, and what nodes need of the
// system namespaces where a webhook could hold it up. What is too broad to be watched
// as a whole is watched in parts.
func wantedScopes(m *admission.Matcher, broad map[watchScope]bool) map[watchScope]keySet {
	s := m.Snapshot
	out := map[watchScope]keySet{}
	services, pods := referencedServices(s), podNamespaces(s)
	for _, kind := range []struct {
		ofCluster watchScope
		keys      keySet
		parts     func(namespace string, names []string) []watchScope
	}{
		{watchScope{kind: servicesOfCluster}, services, func(namespace string, names []string) []watchScope {
			return serviceScopes(namespace, names, broad[watchScope{kind: servicesOfNamespace, namespace: namespace}])
		}},
		{watchScope{kind: endpointsOfCluster}, services, endpointScopes},
		{watchScope{kind: podsOfCluster}, pods, eachOf(podsOfNamespace)},
		{watchScope{kind: budgetsOfCluster}, pods, eachOf(budgetsOfNamespace)},
		{watchScope{kind: networkPoliciesOfCluster}, pods, eachOf(networkPoliciesOfNamespace)},
	} {
		if !broad[kind.ofCluster] && len(kind.keys) > 0 {
			out[kind.ofCluster] = kind.keys
			continue
		}
		for namespace, names := range byNamespace(kind.keys) {
			for _, scope := range kind.parts(namespace, names) {
				out[scope] = scope.keys()
			}
		}
	}
	for _, namespace := range blockedSystems(m) {
		out[watchScope{kind: nodeWorkloads, namespace: namespace}] = nil
	}
	return out
}

// wantsOthers reports whether the Snapshot may want other scopes than the one before.
func wantsOthers(s, before *inventory.Snapshot) bool {
	changed := s.ChangesSince(before)
	return changed.Resources || changed.Others || !slices.EqualFunc(s.Webhooks, before.Webhooks, sameWants)
}

// sameWants reports whether both webhooks want the same scopes, of Snapshots that are
// the same beside webhooks.
func sameWants(a, b *inventory.Webhook) bool {
	return a == b || a.Type == b.Type && a.CRD == b.CRD &&
		a.Backend.Kind == b.Backend.Kind && a.Backend.Service == b.Backend.Service && a.FailsClosed() == b.FailsClosed() &&
		a.MatchPolicy == b.MatchPolicy && reflect.DeepEqual(a.Rules, b.Rules) && slices.Equal(a.MatchConditions, b.MatchConditions) &&
		a.NamespaceSelector.Key == b.NamespaceSelector.Key && a.ObjectSelector.Key == b.ObjectSelector.Key
}

// eachOf makes the scope of all objects of a kind in one namespace.
func eachOf(kind scopeKind) func(namespace string, _ []string) []watchScope {
	return func(namespace string, _ []string) []watchScope {
		return []watchScope{{kind: kind, namespace: namespace}}
	}
}

// podNamespaces are the namespaces of the backends whose failure closes the API.
func podNamespaces(s *inventory.Snapshot) keySet {
	out := keySet{}
	for i := range s.Webhooks {
		switch w := s.Webhooks[i]; {
		case !w.FailsClosed() || w.Backend.Kind == inventory.BackendURL:
		case w.Backend.Kind == inventory.BackendAPIServer:
			out[inventory.Key{Namespace: s.State(w.Backend).Service.Namespace}] = true
		default:
			out[inventory.Key{Namespace: w.Backend.Service.Namespace}] = true
		}
	}
	return out
}

// blockedSystems are the system namespaces whose Pods some webhook could hold up.
func blockedSystems(m *admission.Matcher) []string {
	s := m.Snapshot
	var out []string
	systems := existing(s, inventory.SystemNamespaces)
	for i := range s.Webhooks {
		w := s.Webhooks[i]
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

// byNamespace returns the sorted names of the keys in each namespace.
func byNamespace(keys keySet) map[string][]string {
	out := map[string][]string{}
	for _, key := range slices.SortedFunc(maps.Keys(keys), inventory.Key.Compare) {
		out[key.Namespace] = append(out[key.Namespace], key.Name)
	}
	return out
}

// serviceScopes are the scopes of the Services of one namespace, which is crowded
// where it has too many to watch all of them because of a few.
func serviceScopes(namespace string, services []string, crowded bool) []watchScope {
	names, out := possibleNames(oneService, namespace, services)
	if len(names) > fewServices && (!crowded || len(names) >= manyServices) {
		return append(out, watchScope{servicesOfNamespace, namespace, strings.Join(names, ",")})
	}
	for _, name := range names {
		out = append(out, watchScope{oneService, namespace, name})
	}
	return out
}

// endpointScopes are the scopes of the EndpointSlices of Services of one namespace.
func endpointScopes(namespace string, services []string) []watchScope {
	names, out := possibleNames(endpointsOfServices, namespace, services)
	for chunk := range slices.Chunk(names, selectedServices) {
		out = append(out, watchScope{endpointsOfServices, namespace, strings.Join(chunk, ",")})
	}
	return out
}

// possibleNames returns the names that a selector can have, and a scope for each of
// the others.
func possibleNames(kind scopeKind, namespace string, services []string) (names []string, impossible []watchScope) {
	for _, name := range services {
		if isLabel(name) {
			names = append(names, name)
		} else {
			impossible = append(impossible, watchScope{kind, namespace, name})
		}
	}
	return names, impossible
}

// existing returns those of the namespaces that exist, or may exist.
func existing(s *inventory.Snapshot, namespaces []string) []string {
	return slices.DeleteFunc(slices.Clone(namespaces), func(name string) bool {
		_, exists := s.Namespaces[name]
		return s.NamespacesKnown && !exists
	})
}

// referencedServices returns the Services that the webhooks call, also those behind an
// APIService that a webhook goes through.
func referencedServices(s *inventory.Snapshot) keySet {
	out := keySet{}
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
