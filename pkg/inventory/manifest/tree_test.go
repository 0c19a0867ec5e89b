package manifest

import (
	"bytes"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// tree is what is in a directory or an archive, by path.
type tree map[string]string

func (tr tree) write(t *testing.T, dir string) {
	t.Helper()
	for name, content := range tr {
		must.Write(t, filepath.Join(dir, name), content)
	}
}

func (tr tree) tar(t testing.TB) []byte { return must.Tar(t, tr) }

const (
	hookYAML = `---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: policy
webhooks:
- admissionReviewVersions: [v1]
  clientConfig:
    service: {namespace: policy, name: policy}
  name: pods.policy.example.com
`
	emptyList = "---\napiVersion: v1\nitems: []\nkind: List\nmetadata:\n  resourceVersion: \"1\"\n"
	broken1   = "---\napiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: [\n"
)

func list(items string) string { return "---\napiVersion: v1\nitems:\n" + items + "kind: List\n" }

func mustGatherTree() tree {
	const root, ns = "must-gather.local.123/quay-io-image/", "must-gather.local.123/quay-io-image/namespaces/"
	return tree{
		"must-gather.local.123/must-gather.logs": "a log",
		"must-gather.local.123/timestamp":        "now",
		root + "cluster-scoped-resources/admissionregistration.k8s.io/validatingwebhookconfigurations/policy.yaml": hookYAML,
		root + "cluster-scoped-resources/apiextensions.k8s.io/customresourcedefinitions/a.example.com.yaml":        "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.example.com}\nspec: {group: example.com}\n",
		root + "cluster-scoped-resources/config.openshift.io/clusterversions/version.yaml":                         "---\napiVersion: config.openshift.io/v1\nkind: ClusterVersion\nmetadata: {name: version}\nstatus: {history: [{state: Partial, version: 4.21.0}, {state: Completed, version: 4.20.3}]}\n",
		root + "cluster-scoped-resources/core/nodes/a.yaml":                                                        "---\napiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {nodeInfo: {kubeletVersion: v1.32.1}}\n",
		root + "cluster-scoped-resources/core/nodes/b.yaml":                                                        "---\napiVersion: v1\nkind: Node\nmetadata: {name: b}\n",
		root + "cluster-scoped-resources/storage.k8s.io/broken.yaml":                                               "{{{",
		ns + "policy/policy.yaml":                            "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: policy}\n",
		ns + "policy/core/services.yaml":                     list("- apiVersion: v1\n  kind: Service\n  metadata: {name: policy, namespace: policy}\n  spec: {ports: [{port: 443}]}\n"),
		ns + "policy/discovery.k8s.io/endpointslices.yaml":   list("- apiVersion: discovery.k8s.io/v1\n  kind: EndpointSlice\n  metadata: {name: policy-x, namespace: policy}\n"),
		ns + "policy/core/pods.yaml":                         list("- apiVersion: v1\n  kind: Pod\n  metadata: {name: policy-1, namespace: policy}\n  spec: {nodeName: a, hostNetwork: true, priorityClassName: p, containers: [{name: c, ports: [{containerPort: 17}]}]}\n"),
		ns + "policy/apps/deployments.yaml":                  list("- apiVersion: apps/v1\n  kind: Deployment\n  metadata: {name: policy, namespace: policy}\n"),
		ns + "kube-system/core/pods.yaml":                    emptyList,
		ns + "kube-system/apps/deployments.yaml":             list("- apiVersion: apps/v1\n  kind: Deployment\n  metadata: {name: dns, namespace: kube-system}\n  spec: {template: {metadata: {labels: {k8s-app: kube-dns}}}}\n"),
		ns + "policy/networking.k8s.io/networkpolicies.yaml": list("- apiVersion: networking.k8s.io/v1\n  kind: NetworkPolicy\n  metadata: {name: deny, namespace: policy}\n  spec: {podSelector: {}}\n"),
		ns + "policy/pods/policy-1/policy-1.yaml":            "not: [read",
		ns + "policy/pods/policy-1/c/c/logs/current.log":     "a log",
		ns + "empty/core/services.yaml":                      emptyList,
		ns + "empty/discovery.k8s.io/endpointslices.yaml":    emptyList,
		ns + "full-disk/core/services.yaml":                  "",
		ns + "cut/core/services.yaml":                        "---\napiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: a, namespace: cut}\n  spec: {ports: [{port: 443}]}\n",
		ns + "broken/core/services.yaml":                     broken1,
		ns + "single/core/services/one.yaml":                 "---\napiVersion: v1\nkind: Service\nmetadata: {name: one, namespace: single}\nspec: {ports: [{port: 443}]}\n",
		root + "hostedcluster-x/cluster-scoped-resources/admissionregistration.k8s.io/validatingwebhookconfigurations/other.yaml": strings.ReplaceAll(hookYAML, "policy", "other"),
		root + "monitoring/prometheus/rules.json": "not JSON",
	}
}

// facts are what a whole tree has besides its objects.
type facts struct {
	Services, Endpoints      []string
	Server                   string
	OpenShift                bool
	Nodes, Pods, Deployments int
	NetworkPolicies          int
}

func factsOf(o inventory.Objects) facts {
	return facts{
		Services:    slices.Sorted(maps.Keys(o.ServicesKnown.Namespaces)),
		Endpoints:   slices.Sorted(maps.Keys(o.EndpointsKnown.Namespaces)),
		Server:      o.Server.String(),
		OpenShift:   o.OpenShift,
		Nodes:       len(o.Nodes),
		Pods:        len(o.Pods),
		Deployments: len(o.Deployments),

		NetworkPolicies: len(o.NetworkPolicies),
	}
}

// uncounted compares inputs but for their times and counts.
var uncounted = cmpopts.IgnoreFields(Input{}, "Taken", "Objects", "Skipped")

// What an input may lack.
const (
	noWebhooks   = "no webhook configurations: nothing to audit but conversions"
	noCRDs       = "no CustomResourceDefinitions: conversions are unknown"
	noNamespaces = "no Namespaces: their labels are unknown"
	noServices   = "no Services: backends are unknown"
	noSlices     = "no EndpointSlices: endpoints are unknown"
	noWorkloads  = "no Pods or workloads: what runs behind Services is unknown"
	noPolicies   = "no admission policies: whether there are any is unknown"
	noServer     = "no server version: it is taken to be the newest known"
)

func TestMustGather(t *testing.T) {
	t.Chdir(t.TempDir())
	gather := mustGatherTree()
	gather.write(t, ".")
	must.Write(t, "gather.tar.gz", string(must.Gzip(t, gather.tar(t))))
	must.Write(t, "gather.tar", string(gather.tar(t)))
	const hosted = " is another cluster: audit it by itself"
	for path, want := range map[string]Input{
		"must-gather.local.123":               {Kind: "must-gather", Lacks: []string{noPolicies, "quay-io-image/hostedcluster-x" + hosted}},
		"must-gather.local.123/quay-io-image": {Kind: "must-gather", Lacks: []string{noPolicies, "hostedcluster-x" + hosted}},
		"gather.tar.gz":                       {Kind: "must-gather (archive)", Lacks: []string{noPolicies, "must-gather.local.123/quay-io-image/hostedcluster-x" + hosted}},
		"gather.tar":                          {Kind: "must-gather (archive)", Lacks: []string{noPolicies, "must-gather.local.123/quay-io-image/hostedcluster-x" + hosted}},
	} {
		t.Run(path, func(t *testing.T) {
			o, summary := Read([]string{path}, Options{})
			wantObjects := []string{
				"policy.yaml:2 ValidatingWebhookConfiguration /policy",
				"policy.yaml:7   pods.policy.example.com",
				"a.example.com.yaml:2 CustomResourceDefinition /a.example.com",
				"policy.yaml:2 Namespace /policy",
				"services.yaml:4 Service cut/a",
				"services.yaml:4 Service policy/policy",
				"one.yaml:2 Service single/one",
				"endpointslices.yaml:4 EndpointSlice policy/policy-x",
			}
			got := describe(o)
			expect.Equal(t, wantObjects, got[:len(wantObjects)])
			failed := map[string]bool{}
			for _, e := range o.Errors {
				_, namespace, _ := strings.Cut(e.Source.File, "namespaces/")
				failed[namespace] = true
			}
			expect.Equal(t, map[string]bool{"broken/core/services.yaml": true, "cut/core/services.yaml": true}, failed)
			wantFacts := facts{
				Services:  []string{"empty", "policy"},
				Endpoints: []string{"empty", "policy"},
				Server:    "v1.33",
				OpenShift: true,
				Nodes:     2,
				Pods:      1,

				Deployments: 1, NetworkPolicies: 1,
			}
			expect.Equal(t, wantFacts, factsOf(o))
			want.Path = path
			expect.Equal(t, []Input{want}, summary.Inputs, uncounted)
		})
	}
}

func TestLayouts(t *testing.T) {
	configuration := `{"metadata": {"name": "policy"}, "webhooks": [{"name": "a.example.com", "clientConfig": {"url": "https://a", "caBundle": "eHh4eHh4eHh4"}}]}`
	for name, test := range map[string]struct {
		files tree
		// path is what is read; the archive of all files is read too.
		path  string
		kind  string
		want  []string
		facts facts
		lacks []string
	}{
		"inspect": {
			files: tree{
				"inspect.local.7/namespaces/a/a.yaml":                        "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n",
				"inspect.local.7/namespaces/a/core/services.yaml":            emptyList,
				"inspect.local.7/cluster-scoped-resources/core/nodes/n.yaml": "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n",
			},
			path:  "inspect.local.7",
			kind:  "oc adm inspect",
			want:  []string{"a.yaml:1 Namespace /a"},
			facts: facts{Services: []string{"a"}, Server: "unknown"},
			lacks: []string{noWebhooks, noCRDs, noServices, noSlices, noWorkloads, noPolicies, noServer},
		},
		"inspect, no policies": {
			files: tree{
				"inspect.local.8/namespaces/a/a.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n",
				"inspect.local.8/cluster-scoped-resources/admissionregistration.k8s.io/validatingadmissionpolicies.yaml": emptyList,
			},
			path:  "inspect.local.8",
			kind:  "oc adm inspect",
			want:  []string{"a.yaml:1 Namespace /a"},
			facts: facts{Server: "unknown"},
			lacks: []string{noWebhooks, noCRDs, noServices, noSlices, noWorkloads, noServer},
		},
		"insights": {
			files: tree{
				"config/validatingwebhookconfigurations/policy.json": configuration,
				"config/version.json":                                `{"metadata": {"name": "version"}, "status": {"desired": {"version": "4.20.1"}}}`,
				"config/clusteroperator/kube-apiserver.json":         `{"kind": "ClusterOperator", "apiVersion": "config.openshift.io/v1", "metadata": {"name": "kube-apiserver"}, "status": {"versions": [{"name": "kube-apiserver", "version": "1.33.4"}]}}`,
				"config/clusteroperator/other.json":                  `{"kind": "ClusterOperator", "apiVersion": "config.openshift.io/v1", "metadata": {"name": "other"}}`,
				"config/crd/a.example.com.json":                      `{"metadata": {"name": "a.example.com"}, "spec": {"group": "example.com"}}`,
				"config/pod/openshift-x/y.json":                      "not [ JSON",
				"events/openshift-x.json":                            `{"items": [{"message": "x"}]}`,
			},
			path:  ".",
			kind:  "insights archive",
			want:  []string{"policy.json:1 ValidatingWebhookConfiguration /policy", "policy.json:1   a.example.com", "a.example.com.json:1 CustomResourceDefinition /a.example.com"},
			facts: facts{Server: "v1.33.4", OpenShift: true},
			lacks: []string{noNamespaces, noServices, noSlices, noWorkloads, noPolicies, "no CA bundles: insights archives blank them"},
		},
		"dump": {
			files: tree{
				"dump/nodes.json":                     `{"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}, "status": {"nodeInfo": {"kubeletVersion": "v1.34.2"}}}, {"metadata": {"name": "b"}, "status": {"nodeInfo": {"kubeletVersion": "v1.33.2"}}}]}`,
				"dump/x/services.json":                `{"kind": "ServiceList", "apiVersion": "v1", "items": [{"metadata": {"name": "s", "namespace": "x"}, "spec": {"ports": [{"port": 443}]}}]}`,
				"dump/x/replication-controllers.json": `{"kind": "ReplicationControllerList", "apiVersion": "v1", "items": []}`,
				"dump/x/pods.json":                    `{"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "p", "namespace": "x"}}]}`,
				"dump/x/deployments.json":             `{"kind": "DeploymentList", "apiVersion": "apps/v1", "items": [{"metadata": {"name": "d", "namespace": "x"}}]}`,
				"dump/x/events.json":                  "not [ JSON",
				"dump/x/p/logs.txt":                   "a log",
				"dump/kube-system/services.json":      `{"kind": "ServiceList", "apiVersion": "v1", "items": []}`,
			},
			path:  "dump",
			kind:  "cluster-info dump",
			want:  []string{"services.json:1 Service x/s"},
			facts: facts{Services: []string{"kube-system", "x"}, Server: "v1.34.2", Nodes: 2, Pods: 1},
			lacks: []string{noWebhooks, noCRDs, noNamespaces, noSlices, noPolicies, "no server version but that of the newest kubelet"},
		},
		"manifests that look like a must-gather": {
			files: tree{"clusters/namespaces/a/core/services.yaml": list("- apiVersion: v1\n  kind: Service\n  metadata: {name: s, namespace: a}\n  spec: {ports: [{port: 443}]}\n")},
			path:  "clusters",
			kind:  "manifests",
			want:  []string{"services.yaml:4 Service a/s"},
			facts: facts{Server: "unknown"},
			lacks: []string{noWebhooks, noCRDs, noNamespaces, noSlices, noWorkloads, noServer},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			test.files.write(t, ".")
			check := func(path string, kind string, stdin io.Reader) {
				t.Helper()
				o, summary := Read([]string{path}, Options{Stdin: stdin})
				expect.Equal(t, test.want, describe(o))
				expect.Equal(t, test.facts, factsOf(o))
				expect.Equal(t, []Input{{Path: path, Kind: kind, Lacks: test.lacks}}, summary.Inputs, uncounted)
			}
			check(test.path, test.kind, nil)
			check("-", test.kind+" (archive)", bytes.NewReader(must.Gzip(t, test.files.tar(t))))
		})
	}
}
