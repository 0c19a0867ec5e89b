package installations

// installation is what one module ships of one piece of software, as it is
// applied: rendered, or a base that no overlay narrows. Left out are bases
// whose overlay adds the selectors (kueue, jobset, lws, kruise, k8ssandra,
// hierarchical namespaces), and templates.
type installation struct {
	module, version string
	// path is a file or a directory of the module.
	path string
	// webhooks is how many there are.
	webhooks int
	// hits are all findings above info.
	hits []hit
}

// hit is a finding above info on a webhook, and why it is right.
type hit struct{ check, webhook, because string }

var installations = []installation{
	{"github.com/open-policy-agent/gatekeeper/v3", "v3.23.1", "deploy/gatekeeper.yaml", 3, []hit{{
		"control-plane-path", "check-ignore-label.gatekeeper.sh",
		"while Gatekeeper is down no namespace can be created or changed, on purpose: a user who could label one would be exempt",
	}}},
	{"github.com/cloudnative-pg/cloudnative-pg", "v1.27.0", "releases/cnpg-1.27.0.yaml", 9, nil},
	{"go.universe.tf/metallb", "v0.16.2", "config/manifests/metallb-native.yaml", 7, nil},
	{"volcano.sh/volcano", "v1.10.0", "installer/volcano-development.yaml", 7, nil},
	{"knative.dev/serving", "v0.51.0", "third_party/cert-manager-latest/cert-manager.yaml", 2, nil},
	{"knative.dev/serving", "v0.51.0", "config/core", 3, nil},
	{"knative.dev/serving", "v0.51.0", "third_party/istio-latest/net-istio.yaml", 2, nil},
	{"knative.dev/eventing", "v0.46.0", "config/core", 7, nil},
	{"knative.dev/eventing", "v0.46.0", "third_party/cert-manager/02-trust-manager.yaml", 1, nil},
	{"github.com/tektoncd/pipeline", "v1.0.0", "config", 9, nil},
	{"github.com/tektoncd/triggers", "v0.30.0", "config", 3, nil},
	{"github.com/sigstore/policy-controller", "v0.13.1", "config", 5, nil},
	{"github.com/projectcapsule/capsule", "v0.6.0", "config/install.yaml", 16, []hit{
		{"control-plane-path", "owner.namespace.capsule.clastix.io", "while Capsule is down no namespace can be created or changed"},
		{"control-plane-path", "namespaces.capsule.clastix.io", "the same"},
		{"control-plane-path", "nodes.capsule.clastix.io", "while Capsule is down no Node can be changed by any client, kubelets included"},
		{"virtual-resource", "cordoning.tenant.capsule.clastix.io", "its wildcard takes in bindings: in the namespaces of tenants nothing could be bound while it is down"},
	}},
	{"github.com/kserve/kserve", "v0.15.0", "install/v0.15.0/kserve.yaml", 8, nil},
	{"sigs.k8s.io/cluster-api", "v1.14.2", "core/config/webhook", 21, nil},
	{"sigs.k8s.io/cluster-api", "v1.14.2", "controlplane/kubeadm/config/webhook", 4, nil},
	{"sigs.k8s.io/cluster-api", "v1.14.2", "bootstrap/kubeadm/config/webhook", 3, nil},
	{"sigs.k8s.io/cluster-api-provider-aws/v2", "v2.13.0", "config/webhook", 35, nil},
	{"sigs.k8s.io/cluster-api-provider-azure", "v1.18.0", "config/webhook", 25, nil},
	{"sigs.k8s.io/cluster-api-provider-openstack", "v0.11.0", "config/webhook", 5, nil},
	{"sigs.k8s.io/cluster-api-operator", "v0.15.0", "config/webhook", 14, nil},
	{"github.com/elastic/cloud-on-k8s/v3", "v3.5.0", "config/webhook", 16, nil},
	{"github.com/kedacore/keda/v2", "v2.21.0", "config/webhooks", 6, nil},
	{"github.com/open-telemetry/opentelemetry-operator", "v0.140.0", "config/webhook", 13, nil},
	{"github.com/rabbitmq/messaging-topology-operator", "v1.14.0", "config/webhook", 13, nil},
	{"github.com/kubeflow/trainer/v2", "v2.0.0", "manifests", 3, nil},
	{"github.com/kubeflow/training-operator", "v1.8.1", "manifests", 5, nil},
	{"github.com/ray-project/kuberay/ray-operator", "v1.3.0", "config/webhook", 1, nil},
	{"github.com/VictoriaMetrics/operator", "v0.50.0", "config/webhook", 10, nil},
	{"github.com/Azure/azure-workload-identity", "v1.3.0", "deploy", 1, nil},
	{"github.com/openshift/hive", "v1.1.16", "config", 7, nil},
	{"github.com/kubewarden/kubewarden-controller", "v1.20.0", "config/webhook", 10, nil},
	{"github.com/spiffe/spire-controller-manager", "v0.6.0", "config/webhook", 2, nil},
	{"github.com/jaegertracing/jaeger-operator", "v1.65.0", "config/webhook", 3, nil},
	{"github.com/operator-framework/operator-controller", "v1.2.0", "config", 2, nil}, // one with the prefix of its overlays, one in a file that none includes
}
