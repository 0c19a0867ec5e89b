package classify

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var hostPort = &Check{
	Name:     "host-port",
	Summary:  "The Pods behind a webhook use the network of their host, on a port that another process of the nodes has.",
	Severity: Warning,
	Find: func(p *Profile) []Problem {
		workloads := BehindWebhook(p)
		for _, w := range workloads {
			port := p.Snapshot.TargetPort(p.State.Service, w)
			if !w.HostNetwork || port == 0 || !hasPods(w) {
				continue
			}
			holder, isDeclared := nodePorts[port], false
			if holder == "" && onControlPlane(w) {
				holder = controlPlanePorts[port]
			}
			if other := portHolder(p, workloads, w, port); holder == "" && other != nil {
				holder, isDeclared = other.String(), slices.Contains(w.Declared, port)
			}
			outcome := "one of the two cannot listen, or the other one answers the calls"
			if isDeclared { // both have it as hostPort, by default
				outcome = "the scheduler keeps their Pods apart, and some may stay Pending"
			}
			if holder != "" {
				return []Problem{{
					Severity: warningIf(!isDeclared),
					Message:  fmt.Sprintf("calls %s on port %d of its hosts, which is also that of %s: %s", w, port, holder, outcome),
					Fix:      fmt.Sprintf("serve the webhook on a port that is free on the nodes: change it in %s and in targetPort of Service %s%s", quoted(w.String()), quoted(p.State.Service.Key.String()), byOwner(p)),
				}}
			}
		}
		return nil
	},
}

// nodePorts are the ports that each node of a stock cluster has taken. Source:
// k8s.io/kubernetes/pkg/cluster/ports.
var nodePorts = map[int32]string{10250: "the kubelet", 10256: "kube-proxy"}

// controlPlanePorts are those that the nodes of the control plane have taken besides, where a
// cluster has such nodes. Source: the same; kubeadm.
var controlPlanePorts = map[int32]string{
	2379: "etcd", 2380: "etcd", 6443: "the API server", 10257: "kube-controller-manager", 10259: "kube-scheduler",
}

// onControlPlane reports whether the workload runs on nodes of the control plane alone.
func onControlPlane(w *inventory.Workload) bool {
	return !slices.ContainsFunc(nodeSelectors(w), func(s inventory.Selector) bool {
		requirements, _ := s.Parsed.Requirements()
		return !slices.ContainsFunc(requirements, func(r labels.Requirement) bool {
			isRole := r.Key() == "node-role.kubernetes.io/control-plane" || r.Key() == "node-role.kubernetes.io/master"
			return isRole && r.Operator() != selection.DoesNotExist && r.Operator() != selection.NotIn
		})
	})
}

// portHolder is who else has the port on the network of the hosts, nil for none.
func portHolder(p *Profile, workloads []*inventory.Workload, w *inventory.Workload, port int32) *inventory.Workload {
	for i := range p.Snapshot.Workloads {
		other := &p.Snapshot.Workloads[i]
		if other.HostNetwork && !slices.Contains(workloads, other) && hasPods(other) &&
			slices.Contains(other.Declared, port) && mayShareNode(w, other) {
			return other
		}
	}
	return nil
}

// mayShareNode reports whether Pods of both may run on one node.
func mayShareNode(a, b *inventory.Workload) bool {
	if len(a.Nodes) > 0 && len(b.Nodes) > 0 {
		return slices.ContainsFunc(a.Nodes, func(node string) bool { return slices.Contains(b.Nodes, node) })
	}
	for _, ofA := range nodeSelectors(a) {
		for _, ofB := range nodeSelectors(b) {
			if admission.OneObject(ofA, ofB) {
				return true
			}
		}
	}
	return false
}

// nodeSelectors are those of nodes that the workload may run on: one is enough.
func nodeSelectors(w *inventory.Workload) []inventory.Selector {
	required := labels.SelectorFromSet(w.NodeSelector)
	if len(w.NodeTerms) == 0 {
		return []inventory.Selector{{Parsed: required}}
	}
	var out []inventory.Selector
	for _, term := range w.NodeTerms {
		selector := required
		for _, e := range slices.Concat(term.MatchExpressions, term.MatchFields) { // a field is metadata.name
			operator := selection.Operator(strings.ToLower(string(e.Operator)))
			if e.Operator == corev1.NodeSelectorOpDoesNotExist {
				operator = selection.DoesNotExist
			}
			if r, err := labels.NewRequirement(e.Key, operator, e.Values); err == nil {
				selector = selector.Add(*r)
			}
		}
		out = append(out, inventory.Selector{Parsed: selector})
	}
	return out
}
