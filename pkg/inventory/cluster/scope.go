package cluster

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// watchScope is where objects of a kind are read because of webhooks. The zero
// watchScope is the whole cluster, for what is read whatever the webhooks are.
type watchScope struct {
	schema.GroupResource
	extent extent
	// namespace is empty where the scope covers the cluster.
	namespace string
	// services are the names of the Services in question, separated by commas; empty
	// where all objects of the cluster or of the namespace are.
	services string
}

// extent is how far a scope reaches.
type extent int

const (
	// ofCluster are all objects of a cluster that has few of them: one stream costs
	// the API server less than one for each namespace.
	ofCluster extent = iota
	// ofNamespace are all objects of a namespace, as no selector selects several
	// Services by their names.
	ofNamespace
	// ofServices are the objects that the API server selects for the named Services.
	ofServices
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
	return cmp.Or(cmp.Compare(s.namespace, o.namespace), cmp.Compare(s.Resource, o.Resource), cmp.Compare(s.extent, o.extent), cmp.Compare(s.services, o.services))
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
func (s watchScope) whole() watchScope {
	s.services = ""
	return s
}

// coversCluster reports whether the scope covers the whole cluster.
func (s watchScope) coversCluster() bool { return s.extent == ofCluster }

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
	out := map[watchScope]keySet{}
	called, namespaces := referencedServices(m.Snapshot), podNamespaces(m.Snapshot)
	for _, kind := range []struct {
		schema.GroupResource
		keys keySet
	}{
		{serviceResource, called},
		{sliceResource, called},
		{podResource, namespaces},
		{budgetResource, namespaces},
		{networkPolicyResource, namespaces},
	} {
		if all := (watchScope{GroupResource: kind.GroupResource}); !broad[all] && len(kind.keys) > 0 {
			out[all] = kind.keys
			continue
		}
		for namespace, names := range byNamespace(kind.keys) {
			for _, scope := range partsOf(watchScope{kind.GroupResource, ofNamespace, namespace, ""}, names, broad) {
				out[scope] = scope.keys()
			}
		}
	}
	for _, namespace := range blockedSystems(m) {
		for _, workloads := range []schema.GroupResource{daemonSetResource, deploymentResource} {
			out[watchScope{workloads, ofNamespace, namespace, ""}] = nil
		}
	}
	return out
}

// partsOf are the scopes of the Services of a namespace, or the whole namespace for what
// is not of Services.
func partsOf(namespace watchScope, services []string, broad map[watchScope]bool) []watchScope {
	switch namespace.GroupResource {
	case serviceResource:
		return serviceScopes(namespace, services, broad[namespace])
	case sliceResource:
		return sliceScopes(namespace, services)
	}
	return []watchScope{namespace}
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
func serviceScopes(namespace watchScope, services []string, crowded bool) []watchScope {
	names, out := possibleNames(namespace, services)
	if len(names) > fewServices && (!crowded || len(names) >= manyServices) {
		namespace.services = strings.Join(names, ",")
		return append(out, namespace)
	}
	for _, name := range names {
		out = append(out, namespace.of(name))
	}
	return out
}

// sliceScopes are the scopes of the EndpointSlices of Services of one namespace.
func sliceScopes(namespace watchScope, services []string) []watchScope {
	names, out := possibleNames(namespace, services)
	for chunk := range slices.Chunk(names, selectedServices) {
		out = append(out, namespace.of(chunk...))
	}
	return out
}

// of is the scope of some Services of the namespace alone.
func (s watchScope) of(services ...string) watchScope {
	s.extent, s.services = ofServices, strings.Join(services, ",")
	return s
}

// possibleNames returns the names that a selector can have, and a scope for each of
// the others.
func possibleNames(namespace watchScope, services []string) (names []string, impossible []watchScope) {
	for _, name := range services {
		if isLabel(name) {
			names = append(names, name)
		} else {
			impossible = append(impossible, namespace.of(name))
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
