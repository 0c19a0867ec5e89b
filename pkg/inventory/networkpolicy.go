package inventory

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// NetworkPolicy is what a NetworkPolicy, or a policy of a network plugin, says of calls to
// the Pods that it selects.
type NetworkPolicy struct {
	Kind string
	// Key has no namespace where it is for all that Namespaces selects.
	Key
	// Selectors are of Pods, of which one has to match.
	Selectors  []labels.Selector
	Namespaces labels.Selector
	// The first rule for a call decides, by the order of tiers and of policies in them, as
	// Calico has it.
	tier  tier
	order float64
	rules []policyRule
	// isolates says that calls to its Pods that no rule of the tier is for end there.
	isolates bool
}

// tier is a list of policies, and passes of one whose calls without a rule go on to the next.
type tier struct {
	order  float64
	name   string
	passes bool
}

// policyRule is for calls to some ports but for others, and allows, denies or passes them on.
type policyRule struct {
	action string
	callers
	ports, except openPorts
}

// callers is whether a rule is for calls of API servers, and of Pods; byBlock says that API
// servers are among them by addresses alone, of which it is unknown whether they are theirs.
type callers struct {
	servers, pods certainty
	byBlock       bool
}

func (c callers) or(o callers) callers {
	others := c.servers > never && !c.byBlock || o.servers > never && !o.byBlock
	return callers{max(c.servers, o.servers), max(c.pods, o.pods), (c.byBlock || o.byBlock) && !others}
}

var (
	anyCaller = callers{servers: always, pods: always}
	somePods  = callers{pods: unsure}
	blocks    = callers{servers: unsure, byBlock: true}
)

func (c callers) areServers() certainty { return c.servers }

func (c callers) arePods() certainty { return c.pods }

const (
	allow = "Allow"
	deny  = "Deny"
	pass  = "Pass"
)

// openPorts are ports by their numbers, and by the names that containers give them.
type openPorts struct {
	ranges []portRange
	names  []string
}

type portRange struct{ first, last int32 }

// has reports whether the port is among them, where the Pods name some of theirs.
func (o openPorts) has(w *Workload, port int32) bool {
	return slices.ContainsFunc(o.ranges, func(r portRange) bool { return r.first <= port && port <= r.last }) ||
		slices.ContainsFunc(o.names, func(name string) bool { return w.Ports[name] == port })
}

// newNetworkPolicy reads to whom the rules open which ports: selectors of Pods and namespaces
// never select the network of a host, from which an API server calls. Which addresses an
// ipBlock must have is unknown, so each is taken for the right one.
func newNetworkPolicy(p *networkingv1.NetworkPolicy, openShift bool) NetworkPolicy {
	out := NetworkPolicy{
		Kind: "NetworkPolicy", tier: defaultTier, order: orderOfKubernetes, isolates: true, Key: Key{p.Namespace, p.Name},
		Selectors: []labels.Selector{podSelector(&p.Spec.PodSelector)},
	}
	for _, r := range p.Spec.Ingress {
		rule := policyRule{action: allow}
		if len(r.From) == 0 {
			rule.callers = anyCaller
		}
		for _, peer := range r.From {
			switch {
			case peer.IPBlock != nil:
				rule.callers = rule.or(blocks)
			case admitsHosts(peer, openShift):
				rule.callers = rule.or(callers{servers: always})
			default:
				rule.callers = rule.or(somePods)
			}
		}
		rule.ports.addRule(r)
		out.rules = append(out.rules, rule)
	}
	return out
}

// hostNetworkLabel is that of the namespace for which OpenShift takes what comes from the
// network of a host. Source: docs.openshift.com, About network policy.
const hostNetworkLabel = "policy-group.network.openshift.io/host-network"

// admitsHosts reports whether the peer takes in the network of hosts, as it can on
// OpenShift, which a policy that names the label is for.
func admitsHosts(p networkingv1.NetworkPolicyPeer, openShift bool) bool {
	if p.NamespaceSelector == nil || p.PodSelector != nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(p.NamespaceSelector)
	if err != nil || !selector.Matches(labels.Set{hostNetworkLabel: "", corev1.LabelMetadataName: "openshift-host-network"}) {
		return false
	}
	return openShift || !selector.Matches(labels.Set{corev1.LabelMetadataName: "openshift-host-network"})
}

var allPorts = portRange{0, math.MaxUint16}

func (o *openPorts) addRule(r networkingv1.NetworkPolicyIngressRule) {
	if len(r.Ports) == 0 {
		o.ranges = append(o.ranges, allPorts)
	}
	for _, p := range r.Ports {
		o.add(p)
	}
}

func (o *openPorts) add(p networkingv1.NetworkPolicyPort) {
	switch {
	case !isTCP(ptr.Deref(p.Protocol, "")):
	case p.Port == nil:
		o.ranges = append(o.ranges, allPorts)
	case p.Port.Type == intstr.String:
		o.names = append(o.names, p.Port.StrVal)
	default:
		o.ranges = append(o.ranges, portRange{p.Port.IntVal, ptr.Deref(p.EndPort, p.Port.IntVal)})
	}
}

func isTCP(p corev1.Protocol) bool { return p == "" || p == corev1.ProtocolTCP }

// networkPolicies are those of the objects that isolate Pods for ingress, sorted.
func (o Objects) networkPolicies() []NetworkPolicy {
	var out []NetworkPolicy
	for _, p := range o.NetworkPolicies {
		// Where it lists no types, the API server adds Ingress to whatever its rules say.
		if len(p.Spec.PolicyTypes) == 0 || slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
			out = append(out, newNetworkPolicy(p, o.OpenShift))
		}
	}
	tiers := tiersOf(o.PluginPolicies)
	for _, p := range o.PluginPolicies {
		out = append(out, p.networkPolicies(tiers)...)
	}
	slices.SortFunc(out, func(a, b NetworkPolicy) int {
		return cmp.Or(cmp.Compare(a.tier.order, b.tier.order), cmp.Compare(a.tier.name, b.tier.name),
			cmp.Compare(a.order, b.order), a.Key.Compare(b.Key), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}

// String names the policy as messages do.
func (n *NetworkPolicy) String() string {
	if n.Namespace == "" {
		return n.Kind + " " + n.Name
	}
	return n.Kind + " " + n.Key.String()
}

// action is that of its first rule for calls to the port of the workload, "" without any. Of
// callers that are unsure a rule allows calls, and does no more.
func (n *NetworkPolicy) action(w *Workload, port int32, are func(callers) certainty) string {
	for _, r := range n.rules {
		isFor := are(r.callers)
		if (isFor == always || isFor == unsure && r.action == allow) && r.ports.has(w, port) && !r.except.has(w, port) {
			return r.action
		}
	}
	return ""
}

// Denies reports whether a rule of the policy denies calls of API servers to the port.
func (n *NetworkPolicy) Denies(w *Workload, port int32) bool {
	return n.action(w, port, callers.areServers) == deny
}

// OpensToPods reports whether a rule of the policy lets Pods call the port.
func (n *NetworkPolicy) OpensToPods(w *Workload, port int32) bool {
	return n.action(w, port, callers.arePods) == allow
}

// Opens reports whether a rule of the policy lets anything call the port.
func (n *NetworkPolicy) Opens(w *Workload, port int32) bool {
	return n.OpensToPods(w, port) || n.action(w, port, callers.areServers) == allow
}

// Isolating returns the policies of the Snapshot that close the port of a workload to API
// servers; nil where none does, or it is unknown. They do not apply to Pods on the network of
// their host.
func (s *Snapshot) Isolating(w *Workload, port int32) []*NetworkPolicy {
	return s.closing(w, port, callers.areServers)
}

// ClosedToPods reports whether policies close the port of the workload to all Pods.
func (s *Snapshot) ClosedToPods(w *Workload, port int32) bool {
	return len(s.closing(w, port, callers.arePods)) > 0
}

// closing returns the policy that denies calls to the port, else those of the tier at whose end
// they are denied.
func (s *Snapshot) closing(w *Workload, port int32, are func(callers) certainty) []*NetworkPolicy {
	if port == 0 {
		return nil
	}
	var isolating []*NetworkPolicy
	policies, passed := s.place().isolating()[w.id()], false
	for i, p := range policies {
		if i > 0 && p.tier != policies[i-1].tier {
			isolating, passed = nil, false
		}
		action := ""
		if !passed {
			action = p.action(w, port, are)
		}
		switch {
		case action == allow:
			return nil
		case action == deny:
			return []*NetworkPolicy{p}
		case action == pass:
			passed = true
		case p.isolates:
			isolating = append(isolating, p)
		}
		isLast := i+1 == len(policies) || policies[i+1].tier != p.tier
		if isLast && !passed && !p.tier.passes && len(isolating) > 0 {
			return slices.CompactFunc(isolating, func(a, b *NetworkPolicy) bool { return a.String() == b.String() })
		}
	}
	return nil
}

// OpenToBlocksAlone returns a policy that opens the port of the workload to addresses, where
// no other opens it to API servers; nil for none.
func (s *Snapshot) OpenToBlocksAlone(w *Workload, port int32) *NetworkPolicy {
	var out *NetworkPolicy
	for _, n := range s.place().isolating()[w.id()] {
		for _, r := range n.rules {
			switch isFor := r.action == allow && r.servers > never && r.ports.has(w, port); {
			case isFor && r.byBlock:
				out = n
			case isFor:
				return nil
			}
		}
	}
	return out
}

// findIsolating finds the policies that select each workload. Where not all could be
// compared, too many select it, or labels of its namespace decide that are unknown, one that
// is left out may open what others close.
func (s *Snapshot) findIsolating() map[workloadID][]*NetworkPolicy {
	out, unknown := map[workloadID][]*NetworkPolicy{}, map[workloadID]bool{}
	selects := s.place().newSelection()
	for i := range s.NetworkPolicies {
		p := &s.NetworkPolicies[i]
		for namespace, isFor := range s.namespacesOf(p) {
			for _, selector := range p.Selectors {
				for _, w := range selects.workloadsIn(namespace, selector) {
					policies := out[w.id()]
					unknown[w.id()] = unknown[w.id()] || isFor == unsure
					if !w.HostNetwork && (len(policies) == 0 || policies[len(policies)-1] != p) {
						out[w.id()] = append(policies, p)
					}
				}
			}
		}
	}
	for id, policies := range out {
		if selects.left[id.Namespace] < 0 || len(policies) > comparisons || unknown[id] {
			delete(out, id)
		}
	}
	return out
}

// namespacesOf are those with workloads that a policy is for, or may be.
func (s *Snapshot) namespacesOf(p *NetworkPolicy) map[string]certainty {
	if p.Namespace != "" || p.Namespaces == nil {
		return map[string]certainty{p.Namespace: always}
	}
	out := map[string]certainty{}
	for name := range s.place().workloads {
		namespace, isKnown := s.Namespaces[name]
		switch {
		case !isKnown && !namesNamespaces(p.Namespaces):
			out[name] = unsure
		case p.Namespaces.Matches(labels.Set(WithNameLabel(namespace.Labels, name))):
			out[name] = always
		}
	}
	return out
}

// namesNamespaces reports whether names alone decide which namespaces are selected.
func namesNamespaces(s labels.Selector) bool {
	requirements, _ := s.Requirements()
	return !slices.ContainsFunc(requirements,
		func(r labels.Requirement) bool { return r.Key() != corev1.LabelMetadataName })
}

// TargetPort is the port of the workload's Pods that a call of the Service ends at; 0
// where it is unknown.
func (s *Snapshot) TargetPort(ref ServiceRef, w *Workload) int32 {
	for _, p := range s.Services[ref.Key].Ports {
		switch {
		case p.Port != ref.Port || !isTCP(p.Protocol):
		case p.TargetPort.Type == intstr.String:
			return w.Ports[p.TargetPort.StrVal]
		default:
			return cmp.Or(p.TargetPort.IntVal, p.Port)
		}
	}
	return 0
}
