package classify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var meshStrict = &Check{
	Name:     "mesh-strict",
	Summary:  "A mesh takes calls to a webhook's Pods with its own mutual TLS alone, which no API server speaks.",
	Severity: Warning,
	Find: func(p *Profile) []Problem {
		if p.Platform || p.State.Fault != inventory.Sound {
			return nil
		}
		for _, w := range BehindWebhook(p) {
			port := p.Snapshot.TargetPort(p.State.Service, &w)
			by := p.Snapshot.StrictFor(&w, port)
			if port == 0 || by == nil || !inMesh(p.Snapshot, &w, port) {
				continue
			}
			severity, consequence := consequences(p)
			return []Problem{{
				Severity: min(severity, Warning),
				Message: fmt.Sprintf("calls %s, and PeerAuthentication %s/%s (STRICT) takes calls to port %d of %s from the mesh alone: the API server is outside of it, and %s%s",
					BackendName(p), by.Namespace, by.Name, port, &w, consequence, waitsFirst(p)),
				Brief: fmt.Sprintf("the API server is outside the mesh: PeerAuthentication %s/%s (STRICT) closes port %d of its Pods", by.Namespace, by.Name, port),
				Fix:   takeOutOfMesh(&w, port),
			}}
		}
		return nil
	},
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
	has := func(list string) bool {
		return slices.Contains(strings.Split(strings.ReplaceAll(list, " ", ""), ","), fmt.Sprint(port))
	}
	included, listed := w.MeshAnnotations["traffic.sidecar.istio.io/includeInboundPorts"]
	return !has(w.MeshAnnotations["traffic.sidecar.istio.io/excludeInboundPorts"]) && (!listed || included == "*" || has(included))
}

// takeOutOfMesh is how the sidecars of the workload leave the port alone.
func takeOutOfMesh(w *inventory.Workload, port int32) string {
	maker := w.Maker()
	if maker.Kind == "Pod" {
		return fmt.Sprintf("annotate the Pod: traffic.sidecar.istio.io/excludeInboundPorts: \"%d\"", port)
	}
	ports := strings.TrimPrefix(fmt.Sprintf("%s,%d", w.MeshAnnotations["traffic.sidecar.istio.io/excludeInboundPorts"], port), ",")
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"traffic.sidecar.istio.io/excludeInboundPorts":%q}}}}}`, ports)
	return "have the sidecar leave the port alone; in ambient mode, make the port PERMISSIVE by a PeerAuthentication of the Pods: " +
		changed("patch", strings.ToLower(maker.Kind), inventory.Key{Namespace: w.Namespace, Name: maker.Name},
			"--type=merge -p "+quoted(patch))
}
