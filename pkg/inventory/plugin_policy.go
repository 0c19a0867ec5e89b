package inventory

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// PluginPolicy is a policy of a network plugin, Cilium's or Calico's, as far as it says who
// may call Pods. Source: docs.cilium.io, Network Policy; docs.tigera.io, Network policy.
type PluginPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              pluginSpec `json:"spec"`
	// Specs are more of them, of Cilium.
	Specs []pluginSpec `json:"specs"`
}

type pluginSpec struct {
	// Of Cilium.
	EndpointSelector  *metav1.LabelSelector `json:"endpointSelector"`
	IngressDeny       []pluginRule          `json:"ingressDeny"`
	EnableDefaultDeny struct {
		Ingress *bool `json:"ingress"`
	} `json:"enableDefaultDeny"`
	// Of Calico; DefaultAction is of a Tier.
	Tier                   string   `json:"tier"`
	DefaultAction          string   `json:"defaultAction"`
	Order                  *float64 `json:"order"`
	Selector               string   `json:"selector"`
	NamespaceSelector      string   `json:"namespaceSelector"`
	ServiceAccountSelector string   `json:"serviceAccountSelector"`
	Types                  []string `json:"types"`
	Egress                 []any    `json:"egress"`
	// Those of hosts alone.
	PreDNAT    bool `json:"preDNAT"`
	DoNotTrack bool `json:"doNotTrack"`
	// Of both.
	Ingress []pluginRule `json:"ingress"`
}

// DeepCopyObject copies what is ever written to.
func (p *PluginPolicy) DeepCopyObject() runtime.Object { out := *p; return &out }

// pluginRule is an ingress rule of either.
type pluginRule struct {
	FromEntities  []string `json:"fromEntities"`
	FromEndpoints []any    `json:"fromEndpoints"`
	FromCIDR      []any    `json:"fromCIDR"`
	FromCIDRSet   []any    `json:"fromCIDRSet"`
	FromNodes     []any    `json:"fromNodes"`
	FromGroups    []any    `json:"fromGroups"`
	ICMPs         []any    `json:"icmps"`
	ToPorts       []struct {
		Ports []struct {
			Port     string `json:"port"`
			EndPort  int32  `json:"endPort"`
			Protocol string `json:"protocol"`
		} `json:"ports"`
	} `json:"toPorts"`

	Action      string             `json:"action"`
	Protocol    intstr.IntOrString `json:"protocol"`
	NotProtocol intstr.IntOrString `json:"notProtocol"`
	Source      struct {
		Nets              []any  `json:"nets"`
		NotNets           []any  `json:"notNets"`
		Selector          string `json:"selector"`
		NamespaceSelector string `json:"namespaceSelector"`
		ServiceAccounts   any    `json:"serviceAccounts"`
		Services          struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"services"`
	} `json:"source"`
	Destination struct {
		Ports    []intstr.IntOrString `json:"ports"`
		NotPorts []intstr.IntOrString `json:"notPorts"`
	} `json:"destination"`
}

// The places of Cilium's denials, which come before all else, and of NetworkPolicies among
// Calico's policies.
const (
	orderOfDenials    = -1
	orderOfKubernetes = 1000
)

var defaultTier = tier{order: 1e6, name: "default"}

// tiersOf are the Tiers among the policies, by name.
func tiersOf(policies []*PluginPolicy) map[string]tier {
	out := map[string]tier{defaultTier.name: defaultTier}
	for _, p := range policies {
		if p.Kind == "Tier" {
			order := ptr.Deref(p.Spec.Order, math.Inf(1))
			if p.Name == defaultTier.name {
				order = defaultTier.order
			}
			out[p.Name] = tier{order, p.Name, p.Spec.DefaultAction == pass}
		}
	}
	return out
}

// networkPolicies are what the policy says of calls to the Pods that it selects; none where it
// says nothing, or its selectors cannot be read. A tier that the input lacks comes before the
// default one.
func (p *PluginPolicy) networkPolicies(tiers map[string]tier) []NetworkPolicy {
	var out []NetworkPolicy
	for _, spec := range append([]pluginSpec{p.Spec}, p.Specs...) {
		policy := NetworkPolicy{Kind: p.Kind, Key: Key{p.Namespace, p.Name}}
		name := cmp.Or(spec.Tier, defaultTier.name)
		switch t, isKnown := tiers[name]; {
		case p.Kind == "Tier":
		case strings.HasPrefix(p.APIVersion, "cilium.io/"):
			policy.tier = defaultTier
			out = append(out, spec.ofCilium(policy)...)
		case isKnown:
			policy.tier = t
			out = append(out, spec.ofCalico(policy)...)
		default:
			policy.tier = tier{name: name}
			out = append(out, spec.ofCalico(policy)...)
		}
	}
	return out
}

func (p pluginSpec) ofCilium(out NetworkPolicy) []NetworkPolicy {
	rules := len(p.Ingress)+len(p.IngressDeny) > 0
	out.isolates = ptr.Deref(p.EnableDefaultDeny.Ingress, rules)
	if p.EndpointSelector == nil || !rules && !out.isolates {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(withoutSources(p.EndpointSelector))
	if err != nil || !out.selects(selector, labels.NewSelector()) {
		return nil
	}
	denials := out
	denials.order, out.order = orderOfDenials, orderOfKubernetes
	denials.addCilium(deny, p.IngressDeny)
	out.addCilium(allow, p.Ingress)
	return []NetworkPolicy{denials, out}
}

// selects adds a selector of Pods, and what it says of their namespaces; false where it cannot be
// known which it selects.
func (n *NetworkPolicy) selects(all, namespaces labels.Selector) bool {
	pods := labels.NewSelector()
	requirements, _ := all.Requirements()
	for _, r := range requirements {
		ofNamespace, isOfNamespace := strings.CutPrefix(r.Key(), "io.cilium.k8s.namespace.labels.")
		switch {
		case r.Key() == "io.kubernetes.pod.namespace", r.Key() == "projectcalico.org/namespace":
			namespaces = withRequirement(namespaces, corev1.LabelMetadataName, r)
		case isOfNamespace:
			namespaces = withRequirement(namespaces, ofNamespace, r)
		case strings.HasPrefix(r.Key(), "io.cilium."), strings.HasPrefix(r.Key(), "projectcalico.org/"):
			return false
		default:
			pods = withRequirement(pods, r.Key(), r)
		}
	}
	n.Selectors, n.Namespaces = append(n.Selectors, pods), namespaces
	return true
}

// withoutSources is a selector of Cilium without where its labels come from ("k8s:app").
func withoutSources(s *metav1.LabelSelector) *metav1.LabelSelector {
	bare := func(key string) string { return key[strings.Index(key, ":")+1:] }
	out := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for key, value := range s.MatchLabels {
		out.MatchLabels[bare(key)] = value
	}
	for _, e := range s.MatchExpressions {
		e.Key = bare(e.Key)
		out.MatchExpressions = append(out.MatchExpressions, e)
	}
	return out
}

func withRequirement(s labels.Selector, key string, required labels.Requirement) labels.Selector {
	if r, err := labels.NewRequirement(key, required.Operator(), required.ValuesUnsorted()); err == nil {
		return s.Add(*r)
	}
	return labels.Nothing()
}

// addCilium adds rules; one without callers and ports is for none.
func (n *NetworkPolicy) addCilium(action string, rules []pluginRule) {
	for _, r := range rules {
		callers, isOfSome := r.ciliumCallers()
		if len(r.ToPorts) == 0 && !isOfSome || len(r.ICMPs) > 0 {
			continue
		}
		rule := policyRule{action: action, callers: callers}
		if len(r.ToPorts) == 0 {
			rule.ports.ranges = []portRange{allPorts}
		}
		for _, list := range r.ToPorts {
			for _, p := range list.Ports {
				if p.Protocol == "" || p.Protocol == "ANY" || p.Protocol == "TCP" {
					rule.ports.addText(p.Port, p.EndPort)
				}
			}
		}
		n.rules = append(n.rules, rule)
	}
}

// ciliumCallers: an API server is of the entity kube-apiserver, on a node remote-node, and
// of a managed control plane world; host is the Pod's own node alone. Without a list of callers
// a rule is for all.
func (r pluginRule) ciliumCallers() (out callers, isOfSome bool) {
	for _, e := range r.FromEntities {
		switch e {
		case "all", "cluster":
			out = out.or(anyCaller)
		case "kube-apiserver", "remote-node":
			out = out.or(callers{servers: always})
		case "world":
			out = out.or(callers{servers: unsure})
		}
	}
	if len(r.FromNodes) > 0 {
		out = out.or(callers{servers: unsure})
	}
	if len(r.FromCIDR)+len(r.FromCIDRSet)+len(r.FromGroups) > 0 {
		out = out.or(blocks)
	}
	if len(r.FromEndpoints) > 0 {
		out = out.or(somePods)
	}
	if r.FromEntities == nil && r.FromEndpoints == nil && r.FromCIDR == nil && r.FromCIDRSet == nil &&
		r.FromNodes == nil && r.FromGroups == nil {
		return anyCaller, false
	}
	return out, true
}

// addText adds a port by its number, 0 for all, or its name.
func (o *openPorts) addText(port string, end int32) {
	number, err := strconv.ParseInt(port, 10, 32)
	switch {
	case err != nil:
		o.names = append(o.names, port)
	case number == 0:
		o.ranges = append(o.ranges, allPorts)
	default:
		o.ranges = append(o.ranges, portRange{int32(number), max(int32(number), end)})
	}
}

func (p pluginSpec) ofCalico(out NetworkPolicy) []NetworkPolicy {
	out.isolates = slices.Contains(p.Types, "Ingress") || len(p.Types) == 0 && (len(p.Ingress) > 0 || len(p.Egress) == 0)
	namespaces, read := calicoSelector(strings.ReplaceAll(p.NamespaceSelector, "projectcalico.org/name", corev1.LabelMetadataName))
	for alternative := range strings.SplitSeq(p.Selector, "||") {
		selector, isRead := calicoSelector(alternative)
		read = read && isRead && out.selects(selector, namespaces)
	}
	if !read || !out.isolates || p.PreDNAT || p.DoNotTrack || p.ServiceAccountSelector != "" {
		return nil
	}
	out.order = ptr.Deref(p.Order, math.Inf(1))
	isTCP := func(protocol intstr.IntOrString) bool { return protocol.String() == "TCP" || protocol.String() == "6" }
	for _, r := range p.Ingress {
		unset := intstr.IntOrString{}
		if r.NotProtocol != unset && isTCP(r.NotProtocol) || r.Protocol != unset && !isTCP(r.Protocol) ||
			!slices.Contains([]string{allow, deny, pass}, r.Action) {
			continue
		}
		rule := policyRule{action: r.Action, callers: r.calicoCallers()}
		rule.ports.addCalico(r.Destination.Ports)
		rule.except.addCalico(r.Destination.NotPorts)
		if len(r.Destination.Ports) == 0 {
			rule.ports.ranges = []portRange{allPorts}
		}
		out.rules = append(out.rules, rule)
	}
	return []NetworkPolicy{out}
}

// calicoCallers: selectors are of Pods, and of hosts that Calico manages, which API servers'
// mostly are not; global() selects lists of addresses, too.
func (r pluginRule) calicoCallers() callers {
	s := r.Source
	switch {
	case s.Services.Name == "kubernetes" && s.Services.Namespace == metav1.NamespaceDefault:
		return callers{servers: always}
	case strings.Contains(s.NamespaceSelector, "global()"):
		return blocks
	case s.Selector+s.NamespaceSelector+s.Services.Name != "" || s.ServiceAccounts != nil:
		return somePods
	case len(s.NotNets) > 0:
		return callers{servers: unsure, pods: unsure}
	case len(s.Nets) > 0 && !slices.Contains(s.Nets, any("0.0.0.0/0")):
		return blocks
	}
	return anyCaller
}

func (o *openPorts) addCalico(ports []intstr.IntOrString) {
	for _, p := range ports {
		first, last, _ := strings.Cut(p.String(), ":")
		end, _ := strconv.ParseInt(last, 10, 32)
		o.addText(first, int32(end))
	}
}

// The terms of Calico's selectors, as they are written in those of Kubernetes.
var calicoTerms = []struct {
	*regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`^(?:all\(\))?$`), ""},
	{regexp.MustCompile(`^has\(([\w./-]+)\)$`), "$1"},
	{regexp.MustCompile(`^!\s*has\(([\w./-]+)\)$`), "!$1"},
	{regexp.MustCompile(`^([\w./-]+)\s*(==|!=)\s*['"]([^'"]*)['"]$`), "$1$2$3"},
	{regexp.MustCompile(`^([\w./-]+)\s+in\s*\{(.*)\}$`), "$1 in ($2)"},
	{regexp.MustCompile(`^([\w./-]+)\s+not\s+in\s*\{(.*)\}$`), "$1 notin ($2)"},
}

// calicoSelector reads a selector of terms that all hold; ok is false for any other.
func calicoSelector(text string) (selector labels.Selector, ok bool) {
	var terms []string
	for term := range strings.SplitSeq(text, "&&") {
		term = strings.TrimSpace(term)
		if strings.HasPrefix(term, "(") && strings.HasSuffix(term, ")") {
			term = strings.TrimSpace(term[1 : len(term)-1])
		}
		i := slices.IndexFunc(calicoTerms, func(t struct {
			*regexp.Regexp
			replacement string
		},
		) bool {
			return t.MatchString(term)
		})
		if i < 0 {
			return nil, false
		}
		if requirement := calicoTerms[i].ReplaceAllString(term, calicoTerms[i].replacement); requirement != "" {
			terms = append(terms, strings.NewReplacer("'", "", `"`, "").Replace(requirement))
		}
	}
	selector, err := labels.Parse(strings.Join(terms, ","))
	return selector, err == nil
}
