package classify

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
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
spec: {replicas: 2, selector: {matchLabels: {app: hook}}, template: {metadata: {labels: {app: hook%s}}, spec: {containers: [{name: c, image: c, ports: [{containerPort: 9443}]}]}}}
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
		first   = "---\napiVersion: projectcalico.org/v3\nkind: Tier\nmetadata: {name: first}\nspec: {order: 5%s}\n"
		open    = "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: open, namespace: sys}\nspec: {podSelector: {}, ingress: [{}]}\n"
		peer    = "---\napiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: %s}\nspec: {%s}\n"
		closed  = "network-policy warning"
		strict  = "mesh-strict warning"
		enabled = ", istio-injection: enabled"
	)
	of := func(policy string, values ...any) string { return fmt.Sprintf(policy, values...) }
	for name, test := range map[string]struct{ namespace, pod, policies, want string }{
		"cilium: another port":                {"", "", of(cilium, `ingress: [{fromEntities: [all], toPorts: [{ports: [{port: "8080"}]}]}]`), closed},
		"cilium: kube-apiserver":              {"", "", of(cilium, `ingress: [{fromEntities: [kube-apiserver], toPorts: [{ports: [{port: "9443", protocol: TCP}]}]}]`), ""},
		"cilium: the Pod's own node alone":    {"", "", of(cilium, `ingress: [{fromEntities: [host]}]`), closed},
		"cilium: any caller of a port":        {"", "", of(cilium, `ingress: [{toPorts: [{ports: [{port: "9000", endPort: 9999}]}]}]`), ""},
		"cilium: the empty rule":              {"", "", of(cilium, `ingress: [{}]`), closed},
		"cilium: egress alone":                {"", "", of(cilium, `egress: [{toEntities: [world]}]`), ""},
		"cilium: denied":                      {"", "", of(cilium, `ingress: [{fromEntities: [all]}], ingressDeny: [{fromEntities: [remote-node], toPorts: [{ports: [{port: "9443"}]}]}]`), closed},
		"cilium: no default deny":             {"", "", of(cilium, `enableDefaultDeny: {ingress: false}, ingress: [{fromEndpoints: [{}]}]`), ""},
		"cilium opens what Kubernetes closes": {"", "", deny + of(cilium, `ingress: [{fromEntities: [remote-node]}]`), ""},
		"cilium and Kubernetes close":         {"", "", deny + of(cilium, `ingress: [{fromEndpoints: [{}]}]`), closed},
		"cilium: of the cluster":              {"", "", of(wide, `"k8s:io.kubernetes.pod.namespace": sys`), closed},
		"cilium: of another namespace":        {"", "", of(wide, `"k8s:io.kubernetes.pod.namespace": other`), ""},
		"cilium: several specs":               {"", "", "---\napiVersion: cilium.io/v2\nkind: CiliumNetworkPolicy\nmetadata: {name: p, namespace: sys}\nspecs: [{endpointSelector: {matchLabels: {app: other}}, ingress: [{}]}, {endpointSelector: {}, ingress: [{fromEndpoints: [{}]}]}]\n", closed},
		"cilium: one of several specs opens":  {"", "", "---\napiVersion: cilium.io/v2\nkind: CiliumNetworkPolicy\nmetadata: {name: p, namespace: sys}\nspecs: [{endpointSelector: {}, ingress: [{}]}, {endpointSelector: {}, ingress: [{fromEntities: [kube-apiserver]}]}]\n", ""},
		"cilium: default deny of its own":     {"", "", of(cilium, `enableDefaultDeny: {ingress: true}, egress: [{toEntities: [world]}]`), closed},
		"cilium: an expression":               {"", "", "---\napiVersion: cilium.io/v2\nkind: CiliumNetworkPolicy\nmetadata: {name: p, namespace: sys}\nspec: {endpointSelector: {matchExpressions: [{key: k8s:app, operator: In, values: [hook, x]}]}, ingress: [{fromEntities: [health]}]}\n", closed},
		"cilium: the port by its name":        {"", "", of(cilium, `ingress: [{toPorts: [{ports: [{port: https, protocol: TCP}]}]}]`), closed},
		"cilium: UDP alone":                   {"", "", of(cilium, `ingress: [{fromEntities: [all], toPorts: [{ports: [{port: "9443", protocol: UDP}]}]}]`), closed},
		"cilium: denied to Pods":              {"", "", of(cilium, `ingress: [{fromEntities: [cluster]}], ingressDeny: [{fromEndpoints: [{}]}]`), ""},
		"cilium: deny alone":                  {"", "", of(cilium, `ingressDeny: [{fromEntities: [world]}]`), closed},
		"cilium: denied by a later policy":    {"", "", of(cilium, `ingress: [{fromEntities: [all]}]`) + strings.Replace(of(cilium, `ingressDeny: [{fromEntities: [kube-apiserver]}]`), "name: p", "name: q", 1), closed},
		"cilium: the world is denied":         {"", "", of(cilium, `ingressDeny: [{fromEntities: [world]}], ingress: [{fromEntities: [cluster]}]`), ""},
		"cilium: no caller is denied":         {"", "", of(cilium, `ingressDeny: [{}], ingress: [{fromEntities: [cluster]}]`), ""},
		"cilium: denied without default deny": {"", "", of(cilium, `enableDefaultDeny: {ingress: false}, ingressDeny: [{fromEntities: [remote-node]}]`), closed},
		"cilium: pings alone":                 {"", "", of(cilium, `ingress: [{fromEntities: [all], icmps: [{fields: [{type: 8}]}]}]`), closed},
		"cilium: by a namespace's label":      {", team: a", "", of(wide, `"k8s:io.cilium.k8s.namespace.labels.team": a`), closed},
		"cilium: by a service account":        {"", "", deny + strings.Replace(of(wide, `io.cilium.k8s.policy.serviceaccount: a`), "fromEndpoints: [{}]", "fromEntities: [all]", 1), "network-policy info"},
		"calico: by its CRD":                  {"", "", strings.Replace(of(calico, `selector: all(), types: [Ingress]`, ""), "projectcalico.org/v3", "crd.projectcalico.org/v1", 1), closed},
		"calico: UDP by its number":           {"", "", of(calico, `selector: all(), ingress: [{action: Allow, protocol: 17}]`, ""), closed},
		"calico: TCP by its number":           {"", "", of(calico, `selector: all(), ingress: [{action: Allow, protocol: 6, destination: {ports: [9443]}}]`, ""), ""},
		"calico: a service account's Pods":    {"", "", of(calico, `serviceAccountSelector: "role == 'x'", types: [Ingress]`, ""), ""},
		"calico: staged":                      {"", "", strings.Replace(of(calico, `selector: all(), types: [Ingress]`, ""), "kind: NetworkPolicy", "kind: StagedNetworkPolicy", 1), ""},
		"calico: of hosts, before DNAT":       {"", "", of(global, `preDNAT: true, applyOnForward: true, selector: all(), types: [Ingress]`), ""},
		"calico: passed on":                   {"", "", of(calico, `selector: all(), ingress: [{action: Log}, {action: Pass}]`, ""), ""},
		"calico: in brackets":                 {"", "", of(calico, `selector: "(app == \"hook\")", types: [Ingress]`, ""), closed},
		"calico: Pods of no name":             {"", "", of(calico, `selector: "!has(app)", types: [Ingress]`, ""), ""},
		"calico: all but some addresses":      {"", "", of(calico, `selector: all(), ingress: [{action: Allow, source: {notNets: [10.0.0.0/8]}}]`, ""), ""},
		"mesh: injected by the Pod's label":   {"", ", sidecar.istio.io/inject: \"true\"", strings.Replace(of(peer, "d, namespace: sys", "mtls: {mode: STRICT}"), "/v1\n", "/v1beta1\n", 1), strict},
		"mesh: the namespace is left out":     {", istio-injection: disabled", ", sidecar.istio.io/inject: \"true\"", of(peer, "d, namespace: sys", "mtls: {mode: STRICT}"), ""},
		"mesh: an annotation injects nothing": {"", `}, annotations: {sidecar.istio.io/inject: "true"`, of(peer, "d, namespace: sys", "mtls: {mode: STRICT}"), ""},
		"mesh: annotated out of it":           {enabled, `}, annotations: {sidecar.istio.io/inject: "false"`, of(peer, "d, namespace: sys", "mtls: {mode: STRICT}"), ""},
		"mesh: DISABLE of the namespace":      {enabled, "", of(peer, "d, namespace: istio-system", "mtls: {mode: STRICT}") + of(peer, "e, namespace: sys", "mtls: {mode: DISABLE}"), ""},
		"mesh: STRICT for another port":       {enabled, "", of(peer, "d, namespace: sys", "selector: {matchLabels: {app: hook}}, portLevelMtls: {8080: {mode: STRICT}}"), ""},
		"mesh: STRICT for its port":           {enabled, "", of(peer, "d, namespace: sys", "selector: {matchLabels: {app: hook}}, portLevelMtls: {9443: {mode: STRICT}}"), strict},
		"mesh: ambient":                       {", istio.io/dataplane-mode: ambient", "", of(peer, "d, namespace: sys", "mtls: {mode: STRICT}"), strict},
		"mesh: ambient, but for the Pod":      {", istio.io/dataplane-mode: ambient", ", istio.io/dataplane-mode: none", of(peer, "d, namespace: sys", "mtls: {mode: STRICT}"), ""},
		"mesh: the port is left out":          {enabled, `}, annotations: {traffic.sidecar.istio.io/excludeInboundPorts: "8080, 9443"`, of(peer, "d, namespace: sys", "mtls: {mode: STRICT}"), ""},
		"mesh: other ports are taken in":      {enabled, `}, annotations: {traffic.sidecar.istio.io/includeInboundPorts: "8080"`, of(peer, "d, namespace: sys", "mtls: {mode: STRICT}"), ""},
		"calico: default/kubernetes":          {"", "", of(calico, `selector: "app == 'hook'", types: [Ingress], ingress: [{action: Allow, protocol: TCP, source: {services: {name: kubernetes, namespace: default}}, destination: {ports: [9443]}}]`, ""), ""},
		"calico: Pods alone":                  {"", "", of(calico, `selector: all(), ingress: [{action: Allow, source: {selector: "app == 'a'"}}]`, ""), closed},
		"calico: no rules":                    {"", "", of(calico, `selector: "has(app)", types: [Ingress]`, ""), closed},
		"calico: a range of ports":            {"", "", of(calico, `selector: "app in {'hook', 'b'}", ingress: [{action: Allow, destination: {ports: ["9000:9999"]}}]`, ""), ""},
		"calico: other Pods":                  {"", "", of(calico, `selector: "app == 'x' && has(y)", types: [Ingress]`, ""), ""},
		"calico: a selector that is not read": {"", "", deny + of(calico, `selector: "app starts with 'ho'", ingress: [{action: Allow}]`, ""), "network-policy info"},
		"calico: one of two terms":            {"", "", of(calico, `selector: "app == 'hook' || has(b)", types: [Ingress]`, ""), closed},
		"calico: all ports but its own":       {"", "", of(calico, `selector: all(), ingress: [{action: Allow, protocol: TCP, destination: {notPorts: [9443]}}]`, ""), closed},
		"calico: deny all but its own port":   {"", "", of(calico, `selector: all(), ingress: [{action: Deny, protocol: TCP, destination: {notPorts: [9443]}}, {action: Allow}]`, ""), ""},
		"calico: allow before deny":           {"", "", of(calico, `selector: all(), ingress: [{action: Allow, destination: {ports: [9443]}}, {action: Deny, destination: {ports: ["1:65535"]}}]`, ""), ""},
		"calico: deny all addresses":          {"", "", open + of(calico, `selector: all(), order: 5, ingress: [{action: Deny, source: {nets: [0.0.0.0/0]}}]`, ""), closed},
		"calico: an earlier tier denies":      {"", "", open + of(first, "") + of(calico, `tier: first, selector: all(), ingress: [{action: Deny}]`, ""), closed},
		"calico: a tier ends":                 {"", "", open + of(first, "") + of(calico, `tier: first, selector: all(), ingress: [{action: Allow, source: {selector: all()}}]`, ""), closed},
		"calico: a tier passes on":            {"", "", open + of(first, ", defaultAction: Pass") + of(calico, `tier: first, selector: all(), ingress: [{action: Allow, source: {selector: all()}}]`, ""), ""},
		"calico: passed on, then closed":      {"", "", deny + of(calico, `tier: first, order: 1, selector: all(), ingress: [{action: Pass}]`, "1") + of(calico, `tier: first, order: 2, selector: all(), ingress: [{action: Allow}]`, "2"), closed},
		"calico: the port alone is passed on": {"", "", of(calico, `tier: first, selector: all(), ingress: [{action: Pass, protocol: TCP, destination: {ports: [9443]}}, {action: Deny}]`, ""), ""},
		"calico: by a namespace's label":      {", team: a", "", of(global, `namespaceSelector: "team == 'a'", types: [Ingress]`), closed},
		"calico: by another label":            {", team: a", "", of(global, `namespaceSelector: "team != 'a'", types: [Ingress]`), ""},
		"calico: by a list of addresses":      {"", "", of(calico, `selector: all(), ingress: [{action: Allow, source: {selector: "a == 'b'", namespaceSelector: global()}}]`, ""), ""},
		"calico: deny before allow":           {"", "", of(calico, `selector: all(), ingress: [{action: Deny, protocol: TCP, destination: {ports: [9443]}}, {action: Allow}]`, ""), closed},
		"calico: by order":                    {"", "", of(calico, `selector: all(), order: 10, ingress: [{action: Allow, destination: {ports: [9443]}}]`, "1") + of(calico, `selector: all(), order: 20, ingress: [{action: Deny}]`, "2"), ""},
		"calico: of the cluster":              {"", "", of(global, `namespaceSelector: "projectcalico.org/name not in {'kube-system'}", types: [Ingress]`), closed},
		"mesh: STRICT":                        {enabled, "", of(peer, "d, namespace: sys", "mtls: {mode: STRICT}"), strict},
		"mesh: of the mesh, with a revision":  {", istio.io/rev: canary", "", of(peer, "d, namespace: istio-system", "mtls: {mode: STRICT}"), strict},
		"mesh: the port is permissive":        {enabled, "", of(peer, "d, namespace: sys", "selector: {matchLabels: {app: hook}}, mtls: {mode: STRICT}, portLevelMtls: {9443: {mode: PERMISSIVE}}"), ""},
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

// TestNetworkPolicyEvidence: calls that fail are a warning, as is that none was observed;
// calls that succeed, and policies that are not read, are reasons to doubt.
func TestNetworkPolicyEvidence(t *testing.T) {
	const plugin = "ciliumnetworkpolicies.cilium.io"
	observed := func(b inventory.Behavior) *inventory.Observation {
		return &inventory.Observation{Webhooks: map[inventory.Series]inventory.Behavior{{Type: inventory.Validating, Name: "deny.example.com"}: b}}
	}
	for name, tt := range map[string]struct {
		observed *inventory.Observation
		plugin   bool
		nodes    int
		want     Severity
		says     string
	}{
		"nothing observed":     {nil, false, 0, Warning, "(failurePolicy Fail)"},
		"nothing of it":        {&inventory.Observation{}, false, 3, Warning, "(failurePolicy Fail)"},
		"calls fail":           {observed(inventory.Behavior{Calls: 4, Failures: map[string]float64{"calling_webhook_error": 3}}), false, 0, Warning, "of its 4 calls that were observed 3 failed"},
		"calls fail open":      {observed(inventory.Behavior{Calls: 4, FailedOpen: 4}), true, 0, Warning, "of its 4 calls that were observed 4 failed"},
		"calls succeed":        {observed(inventory.Behavior{Calls: 4}), false, 0, Info, "of its 4 calls that were observed none failed"},
		"conditions fail":      {observed(inventory.Behavior{Calls: 4, Failures: map[string]float64{inventory.FailureMatchCondition: 3}}), false, 0, Info, "none failed"},
		"a plugin's policies":  {nil, true, 0, Info, plugin + " may do so, and is not read"},
		"a single node":        {nil, false, 1, 0, ""},
		"a plugin, calls fine": {observed(inventory.Behavior{Calls: 4}), true, 0, Info, "none failed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := fixture(t, "testdata/network-policy.yaml")
			s.Observed, s.Nodes = tt.observed, make([]string, tt.nodes)
			if tt.plugin {
				s.CRDs[plugin] = &inventory.CRD{}
			}
			got := &Finding{}
			for _, f := range evaluate(t, DefaultPolicy(), s).Findings {
				if f.Check == networkPolicy && f.Webhook.Name == "deny.example.com" {
					got = f
				}
			}
			if got.Severity != tt.want || !strings.HasSuffix(got.Message, tt.says) {
				t.Errorf("%s: %s", got.Severity, got.Message)
			}
		})
	}
}

// TestMesh: what closes the port of a webhook to callers without an identity in the mesh, by the
// annotations of its namespace and Pods, and by the AuthorizationPolicies there.
func TestMesh(t *testing.T) {
	const (
		linkerd = "annotations: {linkerd.io/inject: enabled, config.linkerd.io/default-inbound-policy: "
		istio   = "labels: {istio-injection: enabled}"
		form    = `# as: files
{apiVersion: v1, kind: Namespace, metadata: {name: shop, %s}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: hook, namespace: shop}, spec: {selector: {matchLabels: {app: hook}}, template: {metadata: {labels: {app: hook}%s}, spec: {containers: [{name: c, image: c, ports: [{containerPort: 9443}]}]}}}}
---
{apiVersion: v1, kind: Service, metadata: {name: hook, namespace: shop}, spec: {selector: {app: hook}, ports: [{port: 443, targetPort: 9443}]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: hook}, webhooks: [{name: hook.example.com, admissionReviewVersions: [v1], sideEffects: None, timeoutSeconds: 5, clientConfig: {service: {namespace: shop, name: hook}}, rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [carts]}]}]}
---
{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {name: one, namespace: %s}, spec: %s}
---
{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {name: two, namespace: shop}, spec: %s}
`
		none, other = "{action: AUDIT}", "{selector: {matchLabels: {app: other}}}"
	)
	server := func(port, more string) string {
		return fmt.Sprintf("\n---\n{apiVersion: policy.linkerd.io/v1beta3, kind: Server, metadata: {name: hook, namespace: shop}, spec: {podSelector: {matchLabels: {app: hook}}, port: %s, %s}}\n", port, more)
	}
	lets := func(kind, spec string) string {
		return fmt.Sprintf("---\n{apiVersion: policy.linkerd.io/%s, metadata: {name: a, namespace: shop}, spec: %s}\n", kind, spec)
	}
	for i, tt := range []struct {
		namespace, annotations, policyNamespace, one, two string
		closed                                            bool
	}{
		{linkerd + "all-authenticated}", "", "shop", none, none, true},
		{linkerd + "all-unauthenticated}", "", "shop", none, none, false},
		{linkerd + "deny}", "linkerd.io/inject: disabled", "shop", none, none, false},
		{linkerd + "deny}", "config.linkerd.io/default-inbound-policy: cluster-unauthenticated", "shop", none, none, false},
		{linkerd + "deny}", `config.linkerd.io/skip-inbound-ports: "9443"`, "shop", none, none, false},
		{linkerd + `deny, config.linkerd.io/skip-inbound-ports: "9443"}`, "", "shop", none, none, false},
		{linkerd + `deny, config.linkerd.io/opaque-ports: "9443"}`, "", "shop", none, none, true},
		{"annotations: {config.linkerd.io/default-inbound-policy: deny}", "linkerd.io/inject: ingress", "shop", none, none, true},
		{linkerd + "deny}", "", "shop", none, none + server("9443", "other: x"), true},
		{linkerd + "deny}", "", "shop", none, none + server("8080", ""), true},
		{linkerd + "x}", "", "shop", none, none + server("9443", ""), true},
		{linkerd + "deny}", "", "shop", none, none + server("9443", "accessPolicy: all-unauthenticated"), false},
		{linkerd + "x}", "", "shop", none, none + server("9443", "") + lets("v1alpha1, kind: AuthorizationPolicy", "{targetRef: {name: hook, kind: Server}}"), false},
		{linkerd + "x}", "", "shop", none, none + server("9443", "") + lets("v1alpha1, kind: AuthorizationPolicy", "{targetRef: {name: shop, kind: Namespace}, requiredAuthenticationRefs: [{kind: NetworkAuthentication, name: net}]}"), false},
		{linkerd + "x}", "", "shop", none, none + server("9443", "") + lets("v1alpha1, kind: AuthorizationPolicy", "{targetRef: {name: hook, kind: Server}, requiredAuthenticationRefs: [{kind: MeshTLSAuthentication, name: net}]}"), true},
		{linkerd + "x}", "", "shop", none, none + server("9443", "") + lets("v1beta1, kind: ServerAuthorization", "{server: {name: hook}, client: {unauthenticated: true}}"), false},
		{linkerd + "x}", "", "shop", none, none + server("9443", "") + lets("v1beta1, kind: ServerAuthorization", "{server: {selector: {matchLabels: {for: other}}}, client: {unauthenticated: true}}"), true},
		{linkerd + "x}", `linkerd.io/inject: disabled`, "shop", none, none + server("9443", ""), false},
		{istio, "", "shop", "{}", none, true},
		{istio, "", "istio-system", "{}", none, true},
		{istio, "", "elsewhere", "{}", none, false},
		{istio, "", "shop", other, none, false},
		{istio, `traffic.sidecar.istio.io/excludeInboundPorts: "9443"`, "shop", "{}", none, false},
		{"labels: {istio.io/dataplane-mode: ambient}", "", "shop", "{}", none, true},
		{"labels: {a: b}", "", "shop", "{}", none, false},
		{istio, "", "shop", "{rules: [{}]}", none, false},
		{istio, "", "shop", "{}", `{rules: [{to: [{operation: {ports: ["9443"]}}]}]}`, false},
		{istio, "", "shop", "{}", `{rules: [{to: [{operation: {ports: ["443"]}}]}]}`, true},
		{istio, "", "shop", "{rules: [{from: [{source: {principals: [p]}}]}]}", other, true},
		{istio, "", "shop", "{rules: [{from: [{source: {notPrincipals: [p]}}]}]}", other, false},
		{istio, "", "shop", "{rules: [{from: [{source: {ipBlocks: [10.0.0.0/8]}}]}]}", other, false},
		{istio, "", "shop", "{rules: [{to: [{operation: {methods: [POST], paths: [/v]}}]}]}", none, true},
		{istio, "", "shop", "{action: DENY, rules: [{from: [{source: {notPrincipals: ['*']}}]}]}", "{rules: [{}]}", true},
		{istio, "", "shop", "{action: DENY, rules: [{from: [{source: {namespaces: [a]}}]}]}", none, false},
		{istio, "", "shop", `{action: DENY, rules: [{to: [{operation: {ports: ["8080"]}}]}]}`, none, false},
		{istio, "", "shop", "{action: DENY, rules: [{when: [{key: source.ip, values: [10.0.0.1]}]}]}", none, false},
		{istio, "", "shop", "{targetRefs: [{kind: Gateway, name: g}]}", none, false},
		{istio, "", "shop", "{action: CUSTOM, rules: [{}]}", none, false},
	} {
		annotations := strings.TrimSuffix(", annotations: {"+tt.annotations+"}", ", annotations: {}")
		two, policies, _ := strings.Cut(tt.two, "\n")
		r := reported(t, fmt.Sprintf(form, tt.namespace, annotations, tt.policyNamespace, tt.one, two)+policies)
		got := slices.ContainsFunc(r.Findings, func(f *Finding) bool { return f.Check == meshStrict })
		if got != tt.closed || len(r.Snapshot.Errors) > 0 {
			t.Errorf("%d: %+v: reported %t %v", i, tt, got, r.Snapshot.Errors)
		}
	}
}

// TestSameNode: where each node has a ready Pod, each API server finds one on its own.
func TestSameNode(t *testing.T) {
	for name, nodes := range map[string][]string{"each": {"a", "b"}, "no node known": {}, "none on c": {"a", "c"}, "not ready on d": {"a", "d"}} {
		s := fixture(t, "testdata/same-node-service.yaml")
		s.Nodes = nodes
		service := s.Services[inventory.Key{Namespace: "local", Name: "hook"}]
		ports := map[string]int32{"": 9443}
		service.Endpoints = []inventory.Endpoint{{Ready: true, Node: "a", Ports: ports}, {Ready: true, Node: "b", Ports: ports}, {Node: "d"}}
		s.Services[service.Key] = service
		found := slices.ContainsFunc(evaluate(t, DefaultPolicy(), s).Findings, func(f *Finding) bool {
			return f.Check == sameNodeService && f.Webhook.Name == "local.example.com"
		})
		if found == (name == "each") {
			t.Errorf("%s: found %t", name, found)
		}
	}
}
