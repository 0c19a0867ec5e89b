package inventory

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	operators "k8s.io/apimachinery/pkg/selection"
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
	// Of Calico.
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
	ToPorts       []struct {
		Ports []struct {
			Port     string `json:"port"`
			EndPort  int32  `json:"endPort"`
			Protocol string `json:"protocol"`
		} `json:"ports"`
	} `json:"toPorts"`

	Action   string             `json:"action"`
	Protocol intstr.IntOrString `json:"protocol"`
	Source   struct {
		Nets              []any  `json:"nets"`
		Selector          string `json:"selector"`
		NamespaceSelector string `json:"namespaceSelector"`
		ServiceAccounts   any    `json:"serviceAccounts"`
		Services          struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"services"`
	} `json:"source"`
	Destination struct {
		Ports []intstr.IntOrString `json:"ports"`
	} `json:"destination"`
}

type callers int

const (
	onlyPods callers = iota
	blocks
	anyCaller
)

// orderOfKubernetes is that of a NetworkPolicy among Calico's.
const orderOfKubernetes = 1000

// networkPolicies are what the policy says of calls to the Pods that it selects; none where it
// does not isolate them, or its selectors cannot be read.
func (p *PluginPolicy) networkPolicies() []NetworkPolicy {
	read := pluginSpec.ofCalico
	if strings.HasPrefix(p.APIVersion, "cilium.io/") {
		read = pluginSpec.ofCilium
	}
	var out []NetworkPolicy
	for _, spec := range append([]pluginSpec{p.Spec}, p.Specs...) {
		if policy, isolates := read(spec, NetworkPolicy{Kind: p.Kind, Key: Key{p.Namespace, p.Name}}); isolates {
			out = append(out, policy)
		}
	}
	return out
}

func (p pluginSpec) ofCilium(out NetworkPolicy) (NetworkPolicy, bool) {
	if p.EndpointSelector == nil || !ptr.Deref(p.EnableDefaultDeny.Ingress, len(p.Ingress)+len(p.IngressDeny) > 0) {
		return out, false
	}
	all, err := metav1.LabelSelectorAsSelector(withoutSources(p.EndpointSelector))
	if err != nil {
		return out, false
	}
	out.Selector, out.Namespaces = labels.NewSelector(), labels.NewSelector()
	requirements, _ := all.Requirements()
	for _, r := range requirements {
		if key := r.Key(); key == "io.kubernetes.pod.namespace" {
			out.Namespaces = withRequirement(out.Namespaces, corev1.LabelMetadataName, r.Operator(), r.ValuesUnsorted())
		} else {
			out.Selector = withRequirement(out.Selector, key, r.Operator(), r.ValuesUnsorted())
		}
	}
	for _, r := range p.IngressDeny {
		if r.ciliumCallers() == anyCaller {
			out.Closed.addCilium(r)
		}
	}
	for _, r := range p.Ingress {
		sources := len(r.FromEntities) + len(r.FromEndpoints) + len(r.FromCIDR) + len(r.FromCIDRSet) + len(r.FromNodes)
		if opened := out.openedTo(r.ciliumCallers()); len(r.ToPorts)+sources > 0 {
			for _, ports := range opened {
				ports.addCilium(r)
			}
		}
	}
	return out, true
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

func withRequirement(s labels.Selector, key string, o operators.Operator, values []string) labels.Selector {
	if r, err := labels.NewRequirement(key, o, values); err == nil {
		return s.Add(*r)
	}
	return labels.Nothing()
}

// openedTo are the lists of ports that a rule for the callers adds to.
func (n *NetworkPolicy) openedTo(c callers) []*OpenPorts {
	switch c {
	case anyCaller:
		return []*OpenPorts{&n.Open}
	case blocks:
		return []*OpenPorts{&n.Open, &n.OpenToBlocks}
	}
	return []*OpenPorts{&n.OpenToPods}
}

// ciliumCallers: an API server is of the entity kube-apiserver, on a node remote-node, and
// of a managed control plane world; host is the Pod's own node alone.
func (r pluginRule) ciliumCallers() callers {
	isServer := func(e string) bool {
		return slices.Contains([]string{"all", "cluster", "kube-apiserver", "remote-node", "world"}, e)
	}
	switch {
	case slices.ContainsFunc(r.FromEntities, isServer), len(r.FromNodes) > 0,
		r.FromEntities == nil && r.FromEndpoints == nil && r.FromCIDR == nil && r.FromCIDRSet == nil:
		return anyCaller
	case len(r.FromCIDR)+len(r.FromCIDRSet) > 0:
		return blocks
	}
	return onlyPods
}

func (o *OpenPorts) addCilium(r pluginRule) {
	if len(r.ToPorts) == 0 {
		o.Ranges = append(o.Ranges, allPorts)
	}
	for _, list := range r.ToPorts {
		for _, p := range list.Ports {
			if p.Protocol == "" || p.Protocol == "ANY" || p.Protocol == "TCP" {
				o.addText(p.Port, p.EndPort)
			}
		}
	}
}

// addText adds a port by its number, 0 for all, or its name.
func (o *OpenPorts) addText(port string, end int32) {
	number, err := strconv.ParseInt(port, 10, 32)
	switch {
	case err != nil:
		o.Names = append(o.Names, port)
	case number == 0:
		o.Ranges = append(o.Ranges, allPorts)
	default:
		o.Ranges = append(o.Ranges, PortRange{int32(number), max(int32(number), end)})
	}
}

func (p pluginSpec) ofCalico(out NetworkPolicy) (NetworkPolicy, bool) {
	isolates := slices.Contains(p.Types, "Ingress") || len(p.Types) == 0 && (len(p.Ingress) > 0 || len(p.Egress) == 0)
	var read, readNamespaces bool
	out.Selector, read = calicoSelector(p.Selector)
	out.Namespaces, readNamespaces = calicoSelector(strings.ReplaceAll(p.NamespaceSelector, "projectcalico.org/name",
		corev1.LabelMetadataName))
	if ofHosts := p.PreDNAT || p.DoNotTrack; !isolates || ofHosts || !read || !readNamespaces ||
		p.ServiceAccountSelector != "" || !namesNamespaces(out.Namespaces) {
		return out, false
	}
	out.Order = ptr.Deref(p.Order, 1e12)
	for _, r := range p.Ingress {
		c := r.calicoCallers()
		switch {
		case !slices.Contains([]string{"", "0", "TCP", "6"}, r.Protocol.String()): // 0 of none
		case r.Action == "Allow":
			for _, ports := range out.openedTo(c) {
				ports.addCalico(r)
			}
		case c == anyCaller && (r.Action == "Deny" || r.Action == "Pass") && len(r.Destination.Ports) == 0:
			return out, r.Action == "Deny" // what follows is never reached
		case c == anyCaller && r.Action == "Deny":
			out.Closed.addCalico(r)
		}
	}
	return out, true
}

// calicoCallers: selectors are of Pods, and of hosts that Calico manages, which API servers'
// mostly are not.
func (r pluginRule) calicoCallers() callers {
	s := r.Source
	switch {
	case s.Services.Name == "kubernetes" && s.Services.Namespace == metav1.NamespaceDefault:
		return anyCaller
	case len(s.Nets) > 0:
		return blocks
	case s.Selector+s.NamespaceSelector+s.Services.Name != "" || s.ServiceAccounts != nil:
		return onlyPods
	}
	return anyCaller
}

func (o *OpenPorts) addCalico(r pluginRule) {
	if len(r.Destination.Ports) == 0 {
		o.Ranges = append(o.Ranges, allPorts)
	}
	for _, p := range r.Destination.Ports {
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
		if i < 0 || strings.HasPrefix(term, "projectcalico.org/") {
			return nil, false
		}
		if requirement := calicoTerms[i].ReplaceAllString(term, calicoTerms[i].replacement); requirement != "" {
			terms = append(terms, strings.NewReplacer("'", "", `"`, "").Replace(requirement))
		}
	}
	selector, err := labels.Parse(strings.Join(terms, ","))
	return selector, err == nil
}

// namesNamespaces reports whether names alone decide which namespaces are selected.
func namesNamespaces(s labels.Selector) bool {
	requirements, _ := s.Requirements()
	return !slices.ContainsFunc(requirements,
		func(r labels.Requirement) bool { return r.Key() != corev1.LabelMetadataName })
}
