package classify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var networkPolicy = &Check{
	Name:     "network-policy",
	Summary:  "NetworkPolicies close the port of a webhook's Pods to all but Pods: the API server is probably shut out.",
	Severity: Warning,
	Find: func(p *Profile) []Problem {
		// A node reaches the Pods on it whatever the policies say.
		if p.Platform || p.State.Fault != inventory.Sound || len(p.Snapshot.Nodes) == 1 ||
			len(p.Snapshot.NetworkPolicies) == 0 {
			return nil
		}
		for _, w := range BehindWebhook(p) {
			port := p.Snapshot.TargetPort(p.State.Service, w)
			policies := p.Snapshot.Isolating(w, port)
			switch {
			case len(policies) > 0:
				return []Problem{isolated(p, w, port, policies)}
			case ciliumRuns(p.Snapshot):
				if policy := p.Snapshot.OpenToBlocksAlone(w, port); policy != nil {
					return []Problem{openToBlock(p, w, port, policy)}
				}
			}
		}
		return nil
	},
}

func isolated(p *Profile, w *inventory.Workload, port int32, policies []*inventory.NetworkPolicy) Problem {
	severity, consequence := consequences(p)
	consequence += waitsFirst(p)
	evidence, against := evidenceOfCalls(p)
	callers := "to all"
	switch {
	case policies[0].Denies(w, port):
		callers = "to API servers"
	case slices.ContainsFunc(policies, func(n *inventory.NetworkPolicy) bool { return n.OpensToPods(w, port) }):
		callers = "to all but Pods"
	}
	brief := ""
	for _, n := range policies {
		if called := p.State.Service.Port; n.Opens(w, called) && !n.Opens(w, port) {
			evidence = fmt.Sprintf("; %s opens port %d, which is the Service's: NetworkPolicies count the Pod's, %d", n, called, port) + evidence
			brief = fmt.Sprintf("the API server is probably shut out: %s opens port %d of the Service, not port %d of the Pods", n, called, port)
			break
		}
	}
	if plugin := pluginPolicy(p); against && plugin != "" {
		brief = fmt.Sprintf("%s closes port %d of the Pods; %s may open it for the API server, and is not read", policies[0], port, plugin)
	}
	if against {
		severity = Info
	}
	closers := sentence([]string{policies[0].String()}, len(policies)-1)
	return Problem{
		Severity: min(severity, Warning),
		Message: fmt.Sprintf("calls %s, but port %d of %s is closed %s by %s; the API server calls from its host's network; unless the network plugin lets it in, %s%s",
			BackendName(p), port, w, callers, closers, consequence, evidence),
		Brief: brief,
		Fix:   openPort(p, port),
	}
}

// pluginPolicy names policies of the network plugin that the input shows, as CRDs or as
// objects without them, "" for none: they may let in what a NetworkPolicy does not. Those
// of OVN-Kubernetes, Cilium, Calico, Antrea and others have kinds of their own. One in
// another namespace is about other Pods.
func pluginPolicy(p *Profile) string {
	s := p.Snapshot
	for _, name := range slices.Sorted(maps.Keys(s.CRDs)) {
		if resource, group, _ := strings.Cut(name, "."); strings.HasSuffix(resource, "networkpolicies") && mayOpen(resource, group) {
			return name
		}
	}
	for i := range s.Manifests {
		m := &s.Manifests[i]
		isSame := func(n inventory.NetworkPolicy) bool { return n.Kind == m.Kind && n.Key == m.Key }
		if strings.HasSuffix(m.Kind, "NetworkPolicy") && mayOpen(strings.ToLower(m.Kind), m.Group) &&
			(m.Namespace == "" || m.Namespace == p.State.Service.Namespace) &&
			!slices.ContainsFunc(s.NetworkPolicies, isSame) {
			return m.String()
		}
	}
	return ""
}

// mayOpen reports whether policies of a kind can open to API servers what a NetworkPolicy
// closes: those of Multus are about other networks, and those of an administrator
// (AdminNetworkPolicy, ClusterNetworkPolicy, their baselines) select callers by namespaces
// and Pods, which a host's network is none of. Source: the types of
// sigs.k8s.io/network-policy-api, "host-networked pods are not included".
func mayOpen(kind, group string) bool {
	return !strings.HasPrefix(kind, "multi") && group != "networking.k8s.io" && group != "policy.networking.k8s.io"
}

// ciliumRuns reports whether the input shows Cilium, whose policies by CIDR match no
// node by default. Source: docs.cilium.io, policyCIDRMatchMode.
func ciliumRuns(s *inventory.Snapshot) bool {
	for name := range s.CRDs {
		if strings.HasSuffix(name, ".cilium.io") {
			return true
		}
	}
	return slices.ContainsFunc(s.Manifests, func(m inventory.Manifest) bool {
		return m.Group == "cilium.io" || m.Kind == "ConfigMap" && m.Name == "cilium-config"
	}) ||
		slices.ContainsFunc(s.Workloads, func(w inventory.Workload) bool {
			return w.PodLabels["k8s-app"] == "cilium" || w.Daemon && w.Name == "cilium"
		})
}

// openToBlock reports a port that an ipBlock alone opens, where Cilium runs.
func openToBlock(p *Profile, w *inventory.Workload, port int32, policy *inventory.NetworkPolicy) Problem {
	return Problem{
		Severity: Info,
		Message: fmt.Sprintf("calls %s, and NetworkPolicy %s opens port %d of %s to an ipBlock alone; under Cilium an ipBlock matches no node, unless policyCIDRMatchMode is nodes; if the API server is shut out, %s",
			BackendName(p), policy.Key, port, w, Consequence(p)),
		Brief: fmt.Sprintf("under Cilium the ipBlock by which NetworkPolicy %s opens port %d matches no node, unless policyCIDRMatchMode is nodes", policy.Key, port),
		Fix:   openPort(p, port),
	}
}

// evidenceOfCalls says what else is known of whether calls get through, and whether that
// speaks against it that the API server is shut out.
func evidenceOfCalls(p *Profile) (evidence string, against bool) {
	if o := p.Snapshot.Observed; o != nil {
		behavior := o.Webhooks[p.Series()]
		failed := behavior.Failed() - behavior.Failures[inventory.FailureMatchCondition]
		switch {
		case failed > 0:
			return fmt.Sprintf("; of its %.0f calls that were observed %.0f failed", behavior.Calls, failed), false
		case behavior.Calls > 0:
			return fmt.Sprintf("; of its %.0f calls that were observed none failed", behavior.Calls), true
		}
	}
	if name := pluginPolicy(p); name != "" {
		return fmt.Sprintf("; %s may do so, and is not read", name), true
	}
	return "", false
}

// openPort is a NetworkPolicy that lets any caller reach the port.
func openPort(p *Profile, port int32) string {
	service := p.Snapshot.Services[p.State.Service.Key]
	type object map[string]any
	manifest, err := json.Marshal(object{
		"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
		"metadata": object{"namespace": service.Namespace, "name": service.Name + "-from-api-server"},
		"spec":     object{"podSelector": object{"matchLabels": service.Selector}, "ingress": []object{{"ports": []object{{"port": port}}}}},
	})
	if err != nil {
		return "" // texts and numbers
	}
	return fmt.Sprintf("let callers reach the port from anywhere, or in place of that %s: echo %s | kubectl apply -f -", fromAPIServer(p.Snapshot), quoted(string(manifest)))
}

// fromAPIServer says by which policy API servers alone reach a port.
func fromAPIServer(s *inventory.Snapshot) string {
	if ciliumRuns(s) {
		return "by a CiliumNetworkPolicy from the entities kube-apiserver, remote-node and host"
	}
	return "by a NetworkPolicy from an ipBlock of each control plane node"
}

var meshStrict = &Check{
	Name:     "mesh-strict",
	Summary:  "A mesh takes calls to a webhook's Pods with its own mutual TLS alone, which no API server speaks.",
	Severity: Warning,
	Find: func(p *Profile) []Problem {
		if p.Platform || p.State.Fault != inventory.Sound {
			return nil
		}
		for _, w := range BehindWebhook(p) {
			port := p.Snapshot.TargetPort(p.State.Service, w)
			closes, annotation := closedByMesh(p.Snapshot, w, port)
			if port == 0 || closes == "" {
				continue
			}
			severity, consequence := consequences(p)
			return []Problem{{
				Severity: min(severity, Warning),
				Message: fmt.Sprintf("calls %s, and %s closes port %d of %s to callers without an identity of the mesh: the API server is outside of it, and %s%s",
					BackendName(p), closes, port, w, consequence, waitsFirst(p)),
				Brief: fmt.Sprintf("the API server is outside the mesh: %s closes port %d of its Pods", closes, port),
				Fix:   takeOutOfMesh(p.Snapshot, w, port, annotation),
			}}
		}
		return nil
	},
}

// The annotations by which sidecars leave ports alone.
const (
	excludedByIstio  = "traffic.sidecar.istio.io/excludeInboundPorts"
	skippedByLinkerd = "config.linkerd.io/skip-inbound-ports"
)

// closedByMesh names what closes the port of the workload to callers outside a mesh, "" for
// nothing, and the annotation by which the port is left alone. Source: linkerd.io, proxy
// configuration and authorization policy.
func closedByMesh(s *inventory.Snapshot, w *inventory.Workload, port int32) (closer, annotation string) {
	const policy = "config.linkerd.io/default-inbound-policy"
	if inMesh(s, w, port) {
		if strict := s.StrictFor(w, port); strict != nil {
			return fmt.Sprintf("PeerAuthentication %s/%s (STRICT)", strict.Namespace, strict.Name), excludedByIstio
		}
		if refusing := s.RefusingFor(w, port); refusing != nil {
			return fmt.Sprintf("AuthorizationPolicy %s/%s", refusing.Namespace, refusing.Name), excludedByIstio
		}
	}
	injected := slices.Contains([]string{"enabled", "ingress"}, linkerdAnnotation(s, w, "linkerd.io/inject"))
	if !injected || w.HostNetwork || listsPort(linkerdAnnotation(s, w, skippedByLinkerd), port) {
		return "", ""
	}
	inbound := linkerdAnnotation(s, w, policy)
	switch server, refuses := s.LinkerdServerFor(w, port); {
	case refuses:
		return fmt.Sprintf("Server %s/%s of Linkerd, for which no policy lets such callers in,", server.Namespace, server.Name), skippedByLinkerd
	case server == nil && slices.Contains([]string{"deny", "all-authenticated", "cluster-authenticated"}, inbound):
		return fmt.Sprintf("Linkerd (%s: %s)", policy, inbound), skippedByLinkerd
	}
	return "", ""
}

// linkerdAnnotation is that of the Pods, else that of their namespace.
func linkerdAnnotation(s *inventory.Snapshot, w *inventory.Workload, key string) string {
	return cmp.Or(w.MeshAnnotations[key], s.Namespaces[w.Namespace].Annotations[key])
}

// listsPort reports whether a list of ports and of ranges in an annotation has the port.
func listsPort(list string, port int32) bool {
	return slices.ContainsFunc(strings.Split(strings.ReplaceAll(list, " ", ""), ","), func(entry string) bool {
		first, last, isRange := strings.Cut(entry, "-")
		if !isRange {
			last = first
		}
		lowest, err := strconv.Atoi(first)
		highest, _ := strconv.Atoi(last)
		return err == nil && lowest <= int(port) && int(port) <= highest
	})
}

// inMesh reports whether Istio takes the calls to the port of the workload's Pods: by an
// injected sidecar, or for the node. Source: istio.io, sidecar injection, ambient mode.
func inMesh(s *inventory.Snapshot, w *inventory.Workload, port int32) bool {
	namespace := s.Namespaces[w.Namespace].Labels
	label := func(key string) string {
		if value, own := w.PodLabels[key]; own {
			return value
		}
		return namespace[key]
	}
	const inject = "sidecar.istio.io/inject"
	own := cmp.Or(w.PodLabels[inject], w.MeshAnnotations[inject])
	injected := w.PodLabels[inject] == "true" && namespace["istio-injection"] == "" || namespace["istio-injection"] == "enabled" ||
		namespace["istio-injection"] == "" && label("istio.io/rev") != ""
	switch {
	case w.HostNetwork:
		return false
	case label("istio.io/dataplane-mode") == "ambient":
		return true
	case own == "false", !injected: // no annotation has the injector called
		return false
	}
	included, listed := w.MeshAnnotations["traffic.sidecar.istio.io/includeInboundPorts"]
	isExcluded := listsPort(w.MeshAnnotations[excludedByIstio], port)
	return !isExcluded && (!listed || included == "*" || listsPort(included, port))
}

// takeOutOfMesh is how the sidecars of the workload leave the port alone.
func takeOutOfMesh(s *inventory.Snapshot, w *inventory.Workload, port int32, annotation string) string {
	maker := w.Maker()
	if maker.Kind == "Pod" {
		return fmt.Sprintf("annotate the Pod: %s: \"%d\"", annotation, port)
	}
	ports := strings.TrimPrefix(fmt.Sprintf("%s,%d", linkerdAnnotation(s, w, annotation), port), ",")
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{%q:%q}}}}}`, annotation, ports)
	ambient := ""
	if annotation == excludedByIstio {
		ambient = "; in ambient mode, make the port PERMISSIVE by a PeerAuthentication of the Pods, and let it in by their AuthorizationPolicies"
	}
	return "have the sidecar leave the port alone" + ambient + ": " +
		changed("patch", strings.ToLower(maker.Kind), inventory.Key{Namespace: w.Namespace, Name: maker.Name},
			"--type=merge -p "+quoted(patch))
}

var anyPodMayCall = &Check{
	Name:     "any-pod-may-call",
	Summary:  "No NetworkPolicy closes the port of a webhook to other Pods: each of them may send it reviews.",
	Severity: Info,
	OptIn:    true,
	Find: func(p *Profile) []Problem {
		if p.Platform || p.Webhook.Backend.Kind != inventory.BackendService {
			return nil
		}
		for _, w := range BehindWebhook(p) {
			port := p.Snapshot.TargetPort(p.State.Service, w)
			if port == 0 || w.HostNetwork || p.Snapshot.ClosedToPods(w, port) {
				continue
			}
			unless := ""
			if name := pluginPolicy(p); name != "" {
				unless = fmt.Sprintf("; %s may close it, and is not read", name)
			}
			return []Problem{{
				Message: fmt.Sprintf("calls %s, and any Pod of the cluster may call port %d of %s too: API servers send no credentials by default, so the backend cannot distinguish the callers%s", BackendName(p), port, w, unless),
				Fix:     fmt.Sprintf("close port %d to Pods %s%s", port, fromAPIServer(p.Snapshot), byOwner(p)),
			}}
		}
		return nil
	},
}
