package classify

import (
	"fmt"
	"strings"
	"testing"
)

// TestWaysOfTheNetwork: what stands between an API server and the port 9443 of a webhook's
// Pods.
func TestWaysOfTheNetwork(t *testing.T) {
	const cluster = `
apiVersion: v1
kind: Namespace
metadata: {name: sys, labels: {kubernetes.io/metadata.name: sys%s}}
---
apiVersion: v1
kind: Service
metadata: {name: hook, namespace: sys}
spec: {selector: {app: hook}, ports: [{port: 443, targetPort: 9443}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: hook, namespace: sys}
spec: {replicas: 2, selector: {matchLabels: {app: hook}}, template: {metadata: {labels: {app: hook}%s}, spec: {containers: [{name: c, image: c, ports: [{containerPort: 9443}]}]}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: v}
webhooks: [{name: v.example.com, clientConfig: {service: {namespace: sys, name: hook}}, sideEffects: None, admissionReviewVersions: [v1], rules: [{apiGroups: [shop.example.com], apiVersions: [v1], operations: [CREATE], resources: [carts]}]}]
`
	const (
		cilium  = "---\napiVersion: cilium.io/v2\nkind: CiliumNetworkPolicy\nmetadata: {name: p, namespace: sys}\nspec: {endpointSelector: {matchLabels: {app: hook}}, %s}\n"
		wide    = "---\napiVersion: cilium.io/v2\nkind: CiliumClusterwideNetworkPolicy\nmetadata: {name: p}\nspec: {endpointSelector: {matchLabels: {%s}}, ingress: [{fromEndpoints: [{}]}]}\n"
		calico  = "---\napiVersion: projectcalico.org/v3\nkind: NetworkPolicy\nmetadata: {name: p%[2]s, namespace: sys}\nspec: {%[1]s}\n"
		global  = "---\napiVersion: projectcalico.org/v3\nkind: GlobalNetworkPolicy\nmetadata: {name: p}\nspec: {%s}\n"
		deny    = "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: deny, namespace: sys}\nspec: {podSelector: {}, policyTypes: [Ingress]}\n"
		admin   = "---\napiVersion: policy.networking.k8s.io/v1alpha1\nkind: AdminNetworkPolicy\nmetadata: {name: a}\nspec: {priority: 1, subject: {namespaces: {}}, ingress: [{action: %s, from: [{namespaces: {}}]}]}\n"
		peer    = "---\napiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: %s}\nspec: {%s}\n"
		closed  = "network-policy warning"
		strict  = "mesh-strict warning"
		enabled = ", istio-injection: enabled"
	)
	of := func(policy string, values ...any) string { return fmt.Sprintf(policy, values...) }
	for name, test := range map[string]struct{ namespace, pod, policies, want string }{
		"cilium: another port":                 {"", "", of(cilium, `ingress: [{fromEntities: [all], toPorts: [{ports: [{port: "8080"}]}]}]`), closed},
		"cilium: kube-apiserver":               {"", "", of(cilium, `ingress: [{fromEntities: [kube-apiserver], toPorts: [{ports: [{port: "9443", protocol: TCP}]}]}]`), ""},
		"cilium: the Pod's own node alone":     {"", "", of(cilium, `ingress: [{fromEntities: [host]}]`), closed},
		"cilium: any caller of a port":         {"", "", of(cilium, `ingress: [{toPorts: [{ports: [{port: "9000", endPort: 9999}]}]}]`), ""},
		"cilium: the empty rule":               {"", "", of(cilium, `ingress: [{}]`), closed},
		"cilium: egress alone":                 {"", "", of(cilium, `egress: [{toEntities: [world]}]`), ""},
		"cilium: denied":                       {"", "", of(cilium, `ingress: [{fromEntities: [all]}], ingressDeny: [{fromEntities: [remote-node], toPorts: [{ports: [{port: "9443"}]}]}]`), closed},
		"cilium: no default deny":              {"", "", of(cilium, `enableDefaultDeny: {ingress: false}, ingress: [{fromEndpoints: [{}]}]`), ""},
		"cilium opens what Kubernetes closes":  {"", "", deny + of(cilium, `ingress: [{fromEntities: [remote-node]}]`), ""},
		"cilium and Kubernetes close":          {"", "", deny + of(cilium, `ingress: [{fromEndpoints: [{}]}]`), closed},
		"cilium: of the cluster":               {"", "", of(wide, `"k8s:io.kubernetes.pod.namespace": sys`), closed},
		"cilium: of another namespace":         {"", "", of(wide, `"k8s:io.kubernetes.pod.namespace": other`), ""},
		"calico: default/kubernetes":           {"", "", of(calico, `selector: "app == 'hook'", types: [Ingress], ingress: [{action: Allow, protocol: TCP, source: {services: {name: kubernetes, namespace: default}}, destination: {ports: [9443]}}]`, ""), ""},
		"calico: Pods alone":                   {"", "", of(calico, `selector: all(), ingress: [{action: Allow, source: {selector: "app == 'a'"}}]`, ""), closed},
		"calico: no rules":                     {"", "", of(calico, `selector: "has(app)", types: [Ingress]`, ""), closed},
		"calico: a range of ports":             {"", "", of(calico, `selector: "app in {'hook', 'b'}", ingress: [{action: Allow, destination: {ports: ["9000:9999"]}}]`, ""), ""},
		"calico: other Pods":                   {"", "", of(calico, `selector: "app == 'x' && has(y)", types: [Ingress]`, ""), ""},
		"calico: a selector that is not read":  {"", "", deny + of(calico, `selector: "app == 'hook' || has(b)", ingress: [{action: Allow}]`, ""), "network-policy info"},
		"calico: deny before allow":            {"", "", of(calico, `selector: all(), ingress: [{action: Deny, protocol: TCP, destination: {ports: [9443]}}, {action: Allow}]`, ""), closed},
		"calico: by order":                     {"", "", of(calico, `selector: all(), order: 10, ingress: [{action: Allow, destination: {ports: [9443]}}]`, "1") + of(calico, `selector: all(), order: 20, ingress: [{action: Deny}]`, "2"), ""},
		"calico: of the cluster":               {"", "", of(global, `namespaceSelector: "projectcalico.org/name not in {'kube-system'}", types: [Ingress]`), closed},
		"Admin policies are about Pods":        {"", "", of(admin, "Deny"), ""},
		"Admin policies open nothing to hosts": {"", "", deny + of(admin, "Allow"), closed},
		"mesh: STRICT":                         {enabled, "", of(peer, "d, namespace: sys", "mtls: {mode: STRICT}"), strict},
		"mesh: of the mesh, with a revision":   {", istio.io/rev: canary", "", of(peer, "d, namespace: istio-system", "mtls: {mode: STRICT}"), strict},
		"mesh: the port is permissive":         {enabled, "", of(peer, "d, namespace: sys", "selector: {matchLabels: {app: hook}}, mtls: {mode: STRICT}, portLevelMtls: {9443: {mode: PERMISSIVE}}"), ""},
		"mesh: the Pods are not in it":         {enabled, `, annotations: {sidecar.istio.io/inject: "false"}`, of(peer, "d, namespace: sys", "mtls: {mode: STRICT}"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for line := range strings.Lines(ofRelease(t, fmt.Sprintf(cluster, test.namespace, test.pod)+test.policies, "v1.36.0")) {
				if fields := strings.Fields(line); fields[0] == "network-policy" || fields[0] == "mesh-strict" {
					got = append(got, strings.Join(fields[:2], " "))
				}
			}
			if strings.Join(got, "") != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
