package classify

import (
	"fmt"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var hostPort = &Check{
	Name:     "host-port",
	Summary:  "The Pods behind a webhook use the network of their host, on a port that another process of the nodes has.",
	Severity: Warning,
	Find: func(p *Profile) []Problem {
		behind := BehindWebhook(p)
		for i := range behind {
			w := &behind[i]
			port := p.Snapshot.TargetPort(p.State.Service, w)
			if !w.HostNetwork || port == 0 {
				continue
			}
			if holder := portHolder(p, behind, port); holder != "" {
				return []Problem{{
					Message: fmt.Sprintf("calls %s on port %d of its hosts, which is also that of %s: one of the two cannot listen, or the other one answers the calls", w, port, holder),
					Fix:     fmt.Sprintf("serve the webhook on a port that is free on the nodes: change it in %s and in targetPort of Service %s%s", quoted(w.String()), quoted(p.State.Service.Key.String()), byOwner(p)),
				}}
			}
		}
		return nil
	},
}

// nodePorts are the ports that each node of a stock cluster has taken. Source:
// k8s.io/kubernetes/pkg/cluster/ports.
var nodePorts = map[int32]string{10250: "the kubelet", 10256: "kube-proxy"}

// portHolder names who else has the port on the network of the hosts, "" for none.
func portHolder(p *Profile, behind []inventory.Workload, port int32) string {
	if name := nodePorts[port]; name != "" {
		return name
	}
	for i := range p.Snapshot.Workloads {
		w := &p.Snapshot.Workloads[i]
		own := slices.ContainsFunc(behind, func(b inventory.Workload) bool { return b.Key == w.Key && b.Kind == w.Kind })
		if w.HostNetwork && !own && slices.Contains(w.Declared, port) && slices.ContainsFunc(behind, func(b inventory.Workload) bool { return mayShareNode(&b, w) }) {
			return w.String()
		}
	}
	return ""
}

// mayShareNode reports whether Pods of both may run on one node.
func mayShareNode(a, b *inventory.Workload) bool {
	for key, value := range a.NodeSelector {
		if other, selected := b.NodeSelector[key]; selected && other != value {
			return false
		}
	}
	return len(a.Nodes) == 0 || len(b.Nodes) == 0 || slices.ContainsFunc(a.Nodes, func(node string) bool { return slices.Contains(b.Nodes, node) })
}
