package manifest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
)

// whole is a configuration that an API server takes, with one webhook named as it is.
func whole(name, namespace string) string {
	return fmt.Sprintf("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: %[1]s}\nwebhooks:\n- name: %[1]s.example.com\n  admissionReviewVersions: [v1]\n  sideEffects: None\n  clientConfig: {service: {name: s, namespace: %[2]s}}\n  rules: [{apiGroups: [a.example.com], apiVersions: [v1], operations: [CREATE], resources: [as]}]\n", name, namespace)
}

const (
	crdPatch = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.a.example.com}\nspec: {conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: s, namespace: sys}}}}}\n"
	crdWhole = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.a.example.com}\nspec:\n  group: a.example.com\n  names: {plural: as, kind: A}\n  scope: Namespaced\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n        type: object\n        properties:\n          spec: {type: object}\n"
	kubelet  = "apiVersion: v1\nkind: Node\nmetadata: {name: node, uid: u}\nstatus: {nodeInfo: {kubeletVersion: v1.11.10-gke.5}}\n"
)

// deployed is a Deployment with so many replicas.
func deployed(replicas string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: sys}\nspec: {replicas: " + replicas + ", selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}\n"
}

// TestFolders: which files of a source tree are objects, and what is reported of the others.
func TestFolders(t *testing.T) {
	patch := strings.Split(whole("a", "sys"), "  clientConfig")[0] + "  timeoutSeconds: 7\n"
	allScopes := strings.Replace(whole("a", "sys"), "[as]", `[as], scope: "*"`, 1)
	base := tree{"config/base/kustomization.yaml": "resources: [a.yaml]\n", "config/base/a.yaml": whole("a", "sys")}
	with := func(more tree) tree {
		for name, text := range base {
			if _, given := more[name]; !given {
				more[name] = text
			}
		}
		return more
	}
	for name, test := range map[string]struct {
		files  tree
		want   string // the registrations, and the version of the server
		unread string // of what is not read
	}{
		"a patch that nothing lists":    {with(tree{"config/base/p.yaml": patch, "config/crd/patches/c.yaml": crdPatch}), "a unknown", ""},
		"a whole file beside":           {with(tree{"config/base/b.yaml": whole("b", "sys")}), "a b unknown", ""},
		"a whole form of what is":       {with(tree{"dist/install.yaml": whole("a", "other")}), "a unknown", "not read, as other forms of the objects of config/base: dist; for one: webhook-auditor audit dist"},
		"remarks of one that is not":    {with(tree{"dist/install.yaml": whole("a", "other") + "---\n" + strings.Replace(crdWhole, "io/v1", "io/v1beta1", 1) + "---\n" + crdPatch}), "a unknown", "not read, as other forms of the objects of config/base: dist"},
		"patches of an overlay":         {with(tree{"config/default/kustomization.yaml": "namePrefix: x-\nresources: [../base]\npatches: [{path: p.yaml}]\n", "config/default/p.yaml": patch}), "x-a unknown", ""},
		"overlays":                      {with(tree{"config/default/kustomization.yaml": "namePrefix: x-\nresources: [../base]\n", "config/release/kustomization.yaml": "namePrefix: y-\nresources: [../base]\n"}), "x-a unknown", "of the objects of config/default: config/release;"},
		"the overlay with webhooks":     {with(tree{"config/default/kustomization.yaml": "namespace: sys\nresources: [../crd]\n", "config/hooks/kustomization.yaml": "namespace: sys\nresources: [../crd, ../base]\n", "config/crd/kustomization.yaml": "resources: [c.yaml]\n", "config/crd/c.yaml": crdWhole}), "a as.a.example.com unknown", ""},
		"what a bundle is made of":      {with(tree{"config/manifests/kustomization.yaml": "namePrefix: x-\nresources: [bases/a.clusterserviceversion.yaml, ../base, ../samples]\n", "config/manifests/bases/a.clusterserviceversion.yaml": "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: a}\n", "config/samples/kustomization.yaml": "resources: [s.yaml]\n", "config/samples/s.yaml": "apiVersion: a.example.com/v1\nkind: A\nmetadata: {name: sample}\n"}), "a unknown", ""},
		"a bundle with a misnamed CRD":  {tree{"kustomization.yaml": "resources: [bases/a.clusterserviceversion.yaml, a.yaml, n.yaml, c.yaml]\n", "bases/a.clusterserviceversion.yaml": "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: a}\n", "a.yaml": whole("a", "sys"), "n.yaml": namespace("core"), "c.yaml": strings.Replace(crdWhole, "name: as.a.example.com", "name: as", 1)}, "a as core unknown", ""},
		"overlays of a bundle":          {with(tree{"config/manifests/base/kustomization.yaml": "namePrefix: x-\nresources: [bases/a.clusterserviceversion.yaml, ../../base]\n", "config/manifests/base/bases/a.clusterserviceversion.yaml": "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: a}\n", "config/manifests/ocp/kustomization.yaml": "namePrefix: y-\nresources: [../base]\n"}), "a unknown", ""},
		"an overlay of the default":     {with(tree{"config/default/kustomization.yaml": "namePrefix: x-\nresources: [../base]\n", "config/all/kustomization.yaml": "namePrefix: y-\nresources: [../default]\n"}), "x-a unknown", "of the objects of config/default: config/all;"},
		"an overlay without CRDs":       {with(tree{"config/some/kustomization.yaml": "namePrefix: y-\nresources: [../base]\n", "config/whole/kustomization.yaml": "namePrefix: x-\nresources: [../base, c.yaml]\n", "config/whole/c.yaml": crdWhole}), "as.a.example.com x-a unknown", "of the objects of config/whole: config/some;"},
		"one that names a plain folder": {with(tree{"config/default/kustomization.yaml": "resources: [../base, ../plain]\n", "config/plain/a.txt": "a"}), "a unknown", "it names ../plain, which has no kustomization.yaml"},
		"other webhooks of one name":    {tree{"config/default/kustomization.yaml": "resources: [a.yaml, d.yaml]\n", "config/default/a.yaml": whole("a", "sys"), "config/default/d.yaml": deployed("1"), "config/test/kustomization.yaml": "resources: [a.yaml, d.yaml, c.yaml]\n", "config/test/a.yaml": strings.Replace(whole("a", "sys"), "a.example.com\n  admission", "b.example.com\n  admission", 1), "config/test/d.yaml": deployed("2"), "config/test/c.yaml": crdWhole}, "a d unknown", "of the objects of config/default: config/test;"},
		"two of one name":               {tree{"x/kustomization.yaml": "resources: [a.yaml]\n", "x/a.yaml": whole("a", "sys"), "y/kustomization.yaml": "resources: [a.yaml]\n", "y/a.yaml": strings.Replace(whole("a", "sys"), "a.example.com\n  admission", "b.example.com\n  admission", 1)}, "a unknown", "of which the latter counts"},
		"equal but for a default":       {tree{"a.yaml": whole("a", "sys"), "b.yaml": allScopes}, "a unknown", ""},
		"equal forms but for a default": {tree{"x/kustomization.yaml": "resources: [a.yaml]\n", "x/a.yaml": whole("a", "sys"), "y/kustomization.yaml": "resources: [a.yaml]\n", "y/a.yaml": allScopes}, "a unknown", ""},
		"equal forms":                   {with(tree{"config/other/kustomization.yaml": "resources: [../base]\ncommonLabels: {}\n"}), "a unknown", ""},
		"a root that does not build":    {with(tree{"config/default/kustomization.yaml": "resources: [../base, gone.yaml]\n"}), "a unknown", "kustomization config/default/kustomization.yaml cannot be built: it names gone.yaml"},
		"workloads of such a one":       {with(tree{"config/base/kustomization.yaml": "resources: [a.yaml, d.yaml]\n", "config/base/d.yaml": deployed("1"), "config/default/kustomization.yaml": "resources: [../base, gone.yaml]\npatches: [{path: p.yaml}]\n"}), "a unknown", "cannot be built: it names p.yaml"},
		"workloads without patches":     {with(tree{"config/base/kustomization.yaml": "resources: [a.yaml, d.yaml]\n", "config/base/d.yaml": deployed("1"), "config/default/kustomization.yaml": "resources: [../base, gone.yaml]\n"}), "a d unknown", "cannot be built: it names gone.yaml"},
		"a root that names an URL":      {with(tree{"config/default/kustomization.yaml": "resources: [../base, 'https://example.com/x']\n"}), "a unknown", "names https://example.com/x"},
		"one that leads out":            {tree{"config/a/kustomization.yaml": "resources: [../x.yaml]\n", "config/x.yaml": whole("x", "sys")}, "x unknown", "file 'config/x.yaml' is not in or below 'config/a'"},
		"a patch of a schema":           {tree{"config/kustomization.yaml": "resources: [c.yaml]\npatches: [{target: {kind: CustomResourceDefinition}, patch: '[{\"op\": \"replace\", \"path\": \"/spec/versions/0/schema/openAPIV3Schema/properties/spec/type\", \"value\": \"array\"}]'}]\n", "config/c.yaml": crdWhole}, "as.a.example.com unknown", ""},
		"a component that none takes":   {with(tree{"config/part/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [b.yaml]\n", "config/part/b.yaml": whole("b", "sys")}), "a unknown", ""},
		"two that build on each other":  {tree{"a/kustomization.yaml": "resources: [../b]\n", "b/kustomization.yaml": "resources: [../a]\n", "c.yaml": whole("c", "sys")}, "c unknown", "kustomization a/kustomization.yaml cannot be built"},
		"a chart":                       {with(tree{"charts/x/Chart.yaml": "name: x\n", "charts/x/crds/c.yaml": crdWhole, "charts/x/templates/t.yaml": "{{ if .x }}\n" + whole("t", "sys")}), "a unknown", "chart charts/x is not rendered: helm template --include-crds charts/x | webhook-auditor audit -"},
		"code of others":                {with(tree{"vendor/x/node.yaml": kubelet, "vendor/x/b.yaml": whole("b", "sys"), "web/node_modules/c.yaml": whole("c", "sys")}), "a unknown", ""},
		"a Node of a test":              {with(tree{"test/node.yaml": kubelet}), "a unknown", ""},
		"a Node of a cluster":           {tree{"node.yaml": kubelet, "a.yaml": strings.Replace(whole("a", "sys"), "{name: a}", "{name: a, uid: u}", 1)}, "a v1.11.10-gke.5", ""},
		"an assertion of a test":        {with(tree{"tests/assert.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {labels: {a: b}}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nstatus: {readyReplicas: (n)}\n"}), "a unknown", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			test.files.write(t, ".")
			o, summary := Read([]string{"."}, Options{})
			var names []string
			for _, c := range o.Validating {
				names = append(names, c.Name)
			}
			for _, d := range o.Deployments {
				names = append(names, d.Name)
			}
			for _, n := range o.Namespaces {
				names = append(names, n.Name)
			}
			for _, c := range o.CRDs {
				names = append(names, c.Name)
			}
			slices.Sort(names)
			expect.Equal(t, test.want, strings.Join(append(names, o.Server.String()), " "))
			unread := strings.Join(slices.DeleteFunc(summary.Inputs[0].Lacks, func(s string) bool { return strings.HasPrefix(s, "no ") }), "\n")
			if !strings.Contains(unread, test.unread) || (unread == "") != (test.unread == "") || strings.Contains(unread, "no API server") || len(o.Errors) > 0 {
				t.Errorf("%q, want %q; errors: %v", unread, test.unread, o.Errors)
			}
		})
	}
}
