package classify

import (
	"encoding/json"
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var networkPolicy = &Check{
	Name:     "network-policy",
	Summary:  "NetworkPolicies close the port of a webhook's Pods to all but Pods: the API server is probably shut out.",
	Severity: Warning,
	Find: func(p *Profile) []Problem {
		// A node reaches the Pods on it whatever the policies say.
		if p.Platform || p.State.Fault != inventory.Sound || p.Snapshot.Nodes == 1 || len(p.Snapshot.NetworkPolicies) == 0 {
			return nil
		}
		for _, w := range BehindWebhook(p) {
			port := p.Snapshot.TargetPort(p.State.Service, &w)
			if policies := p.Snapshot.Isolating(&w, port); len(policies) > 0 {
				return []Problem{isolated(p, &w, port, policies)}
			}
		}
		return nil
	},
}

func isolated(p *Profile, w *inventory.Workload, port int32, by []*inventory.NetworkPolicy) Problem {
	severity, consequence := consequences(p)
	evidence, against := evidenceOfCalls(p)
	if against {
		severity = Info
	}
	closing := fmt.Sprintf("NetworkPolicy %s closes", by[0].Key)
	if more := len(by) - 1; more > 0 {
		closing = fmt.Sprintf("NetworkPolicy %s and %d more close", by[0].Key, more)
	}
	return Problem{
		Severity: min(severity, Warning),
		Message: fmt.Sprintf("calls %s, but %s port %d of %s to all but Pods, and the API server calls from the network of its host; unless the network plugin lets it in, %s%s",
			BackendName(p), closing, port, w, consequence, evidence),
		Fix: openPort(p, port),
	}
}

// pluginPolicies are the CRDs of network plugins whose objects may let in what a
// NetworkPolicy does not: of OVN-Kubernetes and others, Cilium, Calico and Antrea.
var pluginPolicies = []string{
	"adminnetworkpolicies.policy.networking.k8s.io",
	"clusternetworkpolicies.policy.networking.k8s.io",
	"ciliumnetworkpolicies.cilium.io",
	"globalnetworkpolicies.crd.projectcalico.org",
	"clusternetworkpolicies.crd.antrea.io",
}

// evidenceOfCalls says what else is known of whether calls get through, and whether that
// speaks against it that the API server is shut out.
func evidenceOfCalls(p *Profile) (evidence string, against bool) {
	if o := p.Snapshot.Observed; o != nil {
		seen := o.Webhooks[p.Series()]
		failed := seen.Failed() - seen.Failures[inventory.FailureMatchCondition]
		switch {
		case failed > 0:
			return fmt.Sprintf("; of its %.0f calls that were observed %.0f failed", seen.Calls, failed), false
		case seen.Calls > 0:
			return fmt.Sprintf("; of its %.0f calls that were observed none failed", seen.Calls), true
		}
	}
	for _, name := range pluginPolicies {
		if p.Snapshot.CRDs[name] != nil {
			return fmt.Sprintf("; %s may do so, and are not read", name), true
		}
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
	return fmt.Sprintf("let callers reach the port from anywhere, or in place of that from an ipBlock of each control plane node: echo %s | kubectl apply -f -", quoted(string(manifest)))
}
