package inventory

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// PeerAuthentication is Istio's: whether the sidecars of Pods take calls without the
// mesh's mutual TLS. Source: istio.io, reference of PeerAuthentication.
type PeerAuthentication struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector      *metav1.LabelSelector `json:"selector"`
		MTLS          meshTLS               `json:"mtls"`
		PortLevelMTLS map[string]meshTLS    `json:"portLevelMtls"`
	} `json:"spec"`
}

// DeepCopyObject copies what is ever written to.
func (p *PeerAuthentication) DeepCopyObject() runtime.Object { out := *p; return &out }

type meshTLS struct {
	Mode string `json:"mode"`
}

// meshRoot is the namespace whose PeerAuthentication is for the whole mesh.
const meshRoot = "istio-system"

// StrictFor returns the PeerAuthentication by which the sidecar of the workload's Pods
// refuses calls from outside the mesh to the port; nil where none does. That of the
// workload counts before that of its namespace, and that before that of the mesh.
func (s *Snapshot) StrictFor(w *Workload, port int32) *PeerAuthentication {
	var found *PeerAuthentication
	rank, mode := 0, ""
	for _, p := range s.PeerAuthentications {
		selector, err := metav1.LabelSelectorAsSelector(p.Spec.Selector)
		own := p.Namespace == w.Namespace
		next := 0
		switch {
		case err != nil || !own && p.Namespace != meshRoot:
		case own && p.Spec.Selector != nil && selector.Matches(labels.Set(w.PodLabels)):
			next = 3
		case p.Spec.Selector == nil && own:
			next = 2
		case p.Spec.Selector == nil:
			next = 1
		}
		ownMode := p.Spec.MTLS.Mode
		if level, set := p.Spec.PortLevelMTLS[strconv.Itoa(int(port))]; set && next == 3 {
			ownMode = level.Mode
		}
		if next > rank && ownMode != "" && ownMode != "UNSET" {
			rank, mode, found = next, ownMode, p
		}
	}
	if mode != "STRICT" {
		return nil
	}
	return found
}

// AuthorizationPolicy is Istio's: which callers the sidecars of Pods let through. Source: istio.io,
// reference of AuthorizationPolicy, Authorization for TCP traffic.
type AuthorizationPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector   *metav1.LabelSelector `json:"selector"`
		TargetRef  any                   `json:"targetRef"`
		TargetRefs []any                 `json:"targetRefs"`
		Action     string                `json:"action"`
		Rules      []struct {
			From []map[string]map[string][]any `json:"from"`
			To   []map[string]map[string][]any `json:"to"`
			When []any                         `json:"when"`
		} `json:"rules"`
	} `json:"spec"`
}

// DeepCopyObject copies what is ever written to.
func (p *AuthorizationPolicy) DeepCopyObject() runtime.Object { out := *p; return &out }

// certainty is whether a rule is about the calls of API servers.
type certainty int

const (
	never certainty = iota
	unsure
	always
)

// fieldMatches is about a field of a rule. API servers have no identity in the mesh, and their TLS
// hides from sidecars what is of HTTP: such fields are ignored in a DENY, and an ALLOW with them.
func (p *AuthorizationPolicy) fieldMatches(key string, values []any, port int32) certainty {
	name, negated := strings.CutPrefix(key, "not")
	matches := false
	switch strings.ToLower(name) {
	case "principals", "namespaces", "serviceaccounts":
	case "ports":
		matches = slices.Contains(values, any(strconv.Itoa(int(port))))
	case "ipblocks", "remoteipblocks":
		return unsure
	default:
		matches = (p.Spec.Action == "DENY") != negated
	}
	if matches != negated {
		return always
	}
	return never
}

// anyMatches is about sources or operations, of which one has to match in all fields.
func (p *AuthorizationPolicy) anyMatches(list []map[string]map[string][]any, port int32) certainty {
	if len(list) == 0 {
		return always
	}
	most := never
	for _, alternative := range list {
		all := always
		for _, fields := range alternative { // source or operation
			for key, values := range fields {
				all = min(all, p.fieldMatches(key, values, port))
			}
		}
		most = max(most, all)
	}
	return most
}

// matches is about the rules, of which one has to match.
func (p *AuthorizationPolicy) matches(port int32) certainty {
	most := never
	for _, r := range p.Spec.Rules {
		one := min(p.anyMatches(r.From, port), p.anyMatches(r.To, port))
		if len(r.When) > 0 {
			one = min(one, unsure)
		}
		most = max(most, one)
	}
	return most
}

// RefusingFor returns the AuthorizationPolicy by which the sidecar of the workload's Pods refuses
// calls of API servers to the port; nil where none does.
func (s *Snapshot) RefusingFor(w *Workload, port int32) *AuthorizationPolicy {
	var allowing *AuthorizationPolicy
	letsIn := false
	for _, p := range s.AuthorizationPolicies {
		selector, err := metav1.LabelSelectorAsSelector(p.Spec.Selector)
		if err != nil || p.Namespace != w.Namespace && p.Namespace != meshRoot || p.Spec.TargetRef != nil ||
			len(p.Spec.TargetRefs) > 0 || p.Spec.Selector != nil && !selector.Matches(labels.Set(w.PodLabels)) {
			continue
		}
		switch match := p.matches(port); p.Spec.Action {
		case "DENY":
			if match == always {
				return p
			}
		case "", "ALLOW":
			allowing, letsIn = cmp.Or(allowing, p), letsIn || match > never
		}
	}
	if letsIn {
		return nil
	}
	return allowing
}

// LinkerdPolicy is a Server of Linkerd, a port of Pods, or what lets callers in there. Source:
// linkerd.io, reference of authorization policy.
type LinkerdPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		PodSelector  *metav1.LabelSelector `json:"podSelector"`
		Port         intstr.IntOrString    `json:"port"`
		AccessPolicy string                `json:"accessPolicy"`
		// Of a ServerAuthorization.
		Server struct {
			Name     string                `json:"name"`
			Selector *metav1.LabelSelector `json:"selector"`
		} `json:"server"`
		Client struct {
			Unauthenticated bool `json:"unauthenticated"`
		} `json:"client"`
		// Of an AuthorizationPolicy.
		TargetRef                  kindAndName   `json:"targetRef"`
		RequiredAuthenticationRefs []kindAndName `json:"requiredAuthenticationRefs"`
	} `json:"spec"`
}

type kindAndName struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// DeepCopyObject copies what is ever written to.
func (p *LinkerdPolicy) DeepCopyObject() runtime.Object { out := *p; return &out }

// letsInto reports whether the policy lets callers without an identity of the mesh call a Server.
func (p *LinkerdPolicy) letsInto(server *LinkerdPolicy) bool {
	target := p.Spec.TargetRef
	switch {
	case p.Namespace != server.Namespace:
		return false
	case p.Kind == "ServerAuthorization":
		selector, err := metav1.LabelSelectorAsSelector(p.Spec.Server.Selector)
		isFor := p.Spec.Server.Name == server.Name || err == nil && selector.Matches(labels.Set(server.Labels))
		return isFor && p.Spec.Client.Unauthenticated
	case target.Kind == "Server" && target.Name == server.Name, target.Kind == "Namespace" && target.Name == server.Namespace:
		isOther := func(ref kindAndName) bool { return ref.Kind != "NetworkAuthentication" }
		return !slices.ContainsFunc(p.Spec.RequiredAuthenticationRefs, isOther)
	}
	return false
}

// LinkerdServerFor returns the Server of the workload's port, nil where there is none, and whether it
// refuses callers without an identity of the mesh.
func (s *Snapshot) LinkerdServerFor(w *Workload, port int32) (server *LinkerdPolicy, refuses bool) {
	for _, p := range s.LinkerdPolicies {
		selector, err := metav1.LabelSelectorAsSelector(p.Spec.PodSelector)
		isPort := p.Spec.Port.IntVal == port || p.Spec.Port.StrVal != "" && w.Ports[p.Spec.Port.StrVal] == port
		if p.Kind == "Server" && p.Namespace == w.Namespace && isPort && err == nil &&
			selector.Matches(labels.Set(w.PodLabels)) {
			isOpen := slices.Contains([]string{"all-unauthenticated", "cluster-unauthenticated", "audit"}, p.Spec.AccessPolicy)
			letsIn := func(o *LinkerdPolicy) bool { return o.letsInto(p) }
			return p, !isOpen && !slices.ContainsFunc(s.LinkerdPolicies, letsIn)
		}
	}
	return nil, false
}
