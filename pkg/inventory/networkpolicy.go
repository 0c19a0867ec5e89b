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
	// Key has no namespace where it is for all that Namespaces selects by their names.
	Key
	Selector, Namespaces labels.Selector
	// Order is Calico's: the first policy that has a rule for a call decides.
	Order float64
	// Closed are the TCP ports that it closes whatever others open.
	Closed OpenPorts
	// Open are the TCP ports that it opens to more than Pods, OpenToPods those that it
	// opens to Pods alone, and OpenToBlocks those of Open that need an ipBlock.
	Open, OpenToPods, OpenToBlocks OpenPorts
}

// OpenPorts are ports by their numbers, and by the names that containers give them.
type OpenPorts struct {
	Ranges []PortRange
	Names  []string
}

// PortRange are the ports from First to Last.
type PortRange struct{ First, Last int32 }

// Has reports whether the port is among them, where the Pods name some of theirs.
func (o OpenPorts) Has(port int32, named map[string]int32) bool {
	if slices.ContainsFunc(o.Ranges, func(r PortRange) bool { return r.First <= port && port <= r.Last }) {
		return true
	}
	return slices.ContainsFunc(o.Names, func(name string) bool { return named[name] == port })
}

// newNetworkPolicy reads which ports the rules open to more than Pods: selectors of Pods and
// namespaces never select the network of a host, from which an API server calls. Which
// addresses an ipBlock must have is unknown, so each is taken for the right one.
func newNetworkPolicy(p *networkingv1.NetworkPolicy, openShift bool) NetworkPolicy {
	out := NetworkPolicy{
		Kind: "NetworkPolicy", Order: orderOfKubernetes, Key: Key{p.Namespace, p.Name}, Selector: podSelector(&p.Spec.PodSelector),
	}
	for _, r := range p.Spec.Ingress {
		switch {
		case len(r.From) == 0,
			slices.ContainsFunc(r.From,
				func(p networkingv1.NetworkPolicyPeer) bool { return admitsHosts(p, openShift) }):
			out.Open.addRule(r)
		case slices.ContainsFunc(r.From, func(p networkingv1.NetworkPolicyPeer) bool { return p.IPBlock != nil }):
			out.Open.addRule(r)
			out.OpenToBlocks.addRule(r)
		default:
			out.OpenToPods.addRule(r)
		}
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

var allPorts = PortRange{0, math.MaxUint16}

func (o *OpenPorts) addRule(r networkingv1.NetworkPolicyIngressRule) {
	if len(r.Ports) == 0 {
		o.Ranges = append(o.Ranges, allPorts)
	}
	for _, p := range r.Ports {
		o.add(p)
	}
}

func (o *OpenPorts) add(p networkingv1.NetworkPolicyPort) {
	switch {
	case !isTCP(ptr.Deref(p.Protocol, "")):
	case p.Port == nil:
		o.Ranges = append(o.Ranges, allPorts)
	case p.Port.Type == intstr.String:
		o.Names = append(o.Names, p.Port.StrVal)
	default:
		o.Ranges = append(o.Ranges, PortRange{p.Port.IntVal, ptr.Deref(p.EndPort, p.Port.IntVal)})
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
	for _, p := range o.PluginPolicies {
		out = append(out, p.networkPolicies()...)
	}
	slices.SortFunc(out, func(a, b NetworkPolicy) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), a.Key.Compare(b.Key), cmp.Compare(a.Kind, b.Kind))
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

// Isolating returns the NetworkPolicies that select the Pods of a workload of the
// Snapshot, where none of them opens the port to more than Pods; nil where one does, or
// it is unknown. They do not apply to Pods on the network of their host.
func (s *Snapshot) Isolating(w *Workload, port int32) []*NetworkPolicy {
	policies := s.place().isolating()[w.id()]
	if port == 0 {
		return nil
	}
	for i, p := range policies {
		switch {
		case p.Closed.Has(port, w.Ports):
			return slices.Concat([]*NetworkPolicy{p}, policies[:i], policies[i+1:])
		case p.Open.Has(port, w.Ports):
			return nil
		}
	}
	return policies
}

// ClosedToPods reports whether NetworkPolicies select the Pods of the workload, and none
// of them opens the port to Pods.
func (s *Snapshot) ClosedToPods(w *Workload, port int32) bool {
	policies := s.place().isolating()[w.id()]
	return len(policies) > 0 && !slices.ContainsFunc(policies, func(n *NetworkPolicy) bool {
		return n.OpenToPods.Has(port, w.Ports) || n.Open.Has(port, w.Ports) && !n.OpenToBlocks.Has(port, w.Ports)
	})
}

// OpenToBlocksAlone returns a NetworkPolicy that opens the port of the workload to
// ipBlocks, where no other opens it to all; nil for none.
func (s *Snapshot) OpenToBlocksAlone(w *Workload, port int32) *NetworkPolicy {
	var out *NetworkPolicy
	for _, n := range s.place().isolating()[w.id()] {
		switch {
		case n.OpenToBlocks.Has(port, w.Ports):
			out = n
		case n.Open.Has(port, w.Ports):
			return nil
		}
	}
	return out
}

// findIsolating finds the policies that select each workload. Where not all could be
// compared, or too many select it, one that is left out may open what others close.
func (s *Snapshot) findIsolating() map[workloadID][]*NetworkPolicy {
	out := map[workloadID][]*NetworkPolicy{}
	selects := s.place().newSelection()
	for i := range s.NetworkPolicies {
		p := &s.NetworkPolicies[i]
		for _, namespace := range s.namespacesOf(p) {
			for _, w := range selects.workloadsIn(namespace, p.Selector) {
				if !w.HostNetwork {
					out[w.id()] = append(out[w.id()], p)
				}
			}
		}
	}
	for id, policies := range out {
		if selects.left[id.Namespace] < 0 || len(policies) > comparisons {
			delete(out, id)
		}
	}
	return out
}

// namespacesOf are those with workloads that a policy is for.
func (s *Snapshot) namespacesOf(p *NetworkPolicy) []string {
	if p.Namespace != "" || p.Namespaces == nil {
		return []string{p.Namespace}
	}
	var out []string
	for name := range s.place().workloads {
		if p.Namespaces.Matches(labels.Set{corev1.LabelMetadataName: name}) {
			out = append(out, name)
		}
	}
	return out
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
