package inputs

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// scene is the namespace and the configuration that are collected: a webhook
// whose Service has no ready endpoint, and one whose Service is missing.
const scene = "sources"

// source is a way to get a cluster into files, and what a report on them says.
type source struct {
	name string
	// collect writes into the folder and returns the paths to audit.
	collect func(t *testing.T, w environment, dir string) []string
	// kind is what the first path is taken for.
	kind string
	// finds are the checks that find something, of those two.
	finds []string
	// lacks are parts of what is reported as missing from the first path; whole
	// must not be among it.
	lacks, whole []string
	// dated means that it has the time at which it was collected.
	dated bool
}

const (
	noConfigurations = "no webhook configurations"
	noServices       = "no Services"
	noEndpoints      = "no EndpointSlices"
	noNamespaces     = "no Namespaces"
)

var sources = []source{
	{
		name: "must-gather", collect: mustGather, kind: "must-gather", dated: true,
		finds: []string{"no-ready-endpoints", "service-missing"},
		lacks: []string{"no server version"},
		whole: []string{noConfigurations, noServices, noEndpoints, noNamespaces},
	},
	{
		name: "kubectl cluster-info dump, and the configuration", collect: dumpAndConfiguration, kind: "cluster-info dump", dated: true,
		finds: []string{"service-missing"},
		lacks: []string{noConfigurations, noEndpoints, noNamespaces, "no CustomResourceDefinitions"},
		whole: []string{noServices},
	},
}

// TestSources audits what support engineers hold in their hands: the folder,
// and an archive of it.
func TestSources(t *testing.T) {
	w := environment{stock.Use(t)}
	w.setScene(t)
	for _, s := range sources {
		t.Run(s.name, func(t *testing.T) {
			dir := t.TempDir()
			paths := s.collect(t, w, dir)
			s.audited(t, s.kind, paths...)
			if packed := packedIn(t, paths[0]); packed != "" {
				s.audited(t, s.kind+" (archive)", append([]string{packed}, paths[1:]...)...)
			}
		})
	}
}

func (w environment) setScene(t *testing.T) {
	b := w.Backend(t, scene)
	testenv.Must(t, b.Unready(t.Context()))
	here := testenv.Hook(b, "/allow/sources", testenv.Rule("", "configmaps"))
	gone := *here.DeepCopy()
	gone.Name, gone.ClientConfig.Service.Name = "gone."+here.Name, "gone"
	gone.FailurePolicy, here.FailurePolicy = new(admissionv1.Fail), new(admissionv1.Fail)
	w.Validate(t, scene, here, gone)
}

// audited compares what is reported on the paths with the source.
func (s source) audited(t *testing.T, kind string, paths ...string) {
	t.Helper()
	d, got := testenv.Report(t, append([]string{"--fail-on=never", "--aggregator-routing=true"}, paths...)...)
	if got.Code != 0 || len(d.Errors) > 0 || len(d.Inputs) != len(paths) {
		t.Fatalf("exit code %d, errors %v, inputs %v", got.Code, d.Errors, d.Inputs)
	}
	if in := d.Inputs[0]; in.Kind != kind || in.Path != paths[0] || in.Objects == 0 {
		t.Errorf("%s was taken for %+v, want %s", paths[0], in, kind)
	}
	lacks := strings.Join(d.Inputs[0].Lacks, "; ")
	for _, part := range s.lacks {
		if !strings.Contains(lacks, part) {
			t.Errorf("not reported as missing: %s; but: %s", part, lacks)
		}
	}
	for _, part := range s.whole {
		if strings.Contains(lacks, part) {
			t.Errorf("wrongly reported as missing: %s", part)
		}
	}
	for _, check := range []string{"no-ready-endpoints", "service-missing"} {
		if want := slices.Contains(s.finds, check); d.HasFinding(check, scene) != want {
			t.Errorf("%s found: %t, want %t", check, !want, want)
		}
	}
	if !d.HasWebhookOf(scene) || d.HasFinding("ca-bundle-invalid", scene) {
		t.Errorf("webhooks are not known, or their CA bundles not: %+v", d.Findings)
	}
	if dated := !d.Inputs[0].Taken.IsZero(); dated != s.dated || dated && (time.Since(d.Taken) > time.Hour || d.Taken.After(time.Now())) {
		t.Errorf("collected at %s, evaluated as of %s", d.Inputs[0].Taken, d.Taken)
	}
	text := testenv.Command(t, append([]string{"audit", "-v", "--fail-on=never"}, paths...)...).Stdout
	if !testenv.ContainsAll(strings.Join(strings.Fields(text), " "), "Read "+paths[0]+" as "+kind+": ") {
		t.Errorf("the report does not say what it was made from:\n%s", text)
	}
}

// resource is a resource of the cluster and its place in a must-gather.
func resource(group, version, name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: name}
}

// list reads what there is of a resource in a namespace.
func (w environment) list(t *testing.T, r schema.GroupVersionResource, namespace string) *unstructured.UnstructuredList {
	t.Helper()
	found, err := w.Dynamic.Resource(r).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
	testenv.Must(t, err)
	found.SetAPIVersion("v1")
	found.SetKind("List")
	return found
}

// put writes an object to a file, as oc does.
func put(t *testing.T, object any, path ...string) {
	t.Helper()
	text, err := yaml.Marshal(object)
	testenv.Must(t, err)
	file := filepath.Join(path...)
	testenv.Must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	testenv.Must(t, os.WriteFile(file, append([]byte("---\n"), text...), 0o600))
}

// inspected writes the namespace of the scene as oc adm inspect does.
func inspected(t *testing.T, w environment, root string) {
	namespaces := w.list(t, resource("", "v1", "namespaces"), "")
	for i := range namespaces.Items {
		if namespaces.Items[i].GetName() == scene {
			put(t, namespaces.Items[i].Object, root, "namespaces", scene, scene+".yaml")
		}
	}
	for folder, r := range map[string]schema.GroupVersionResource{
		"core":             resource("", "v1", "services"),
		"discovery.k8s.io": resource("discovery.k8s.io", "v1", "endpointslices"),
		"apps":             resource("apps", "v1", "deployments"),
	} {
		put(t, w.list(t, r, scene).UnstructuredContent(), root, "namespaces", scene, folder, r.Resource+".yaml")
	}
	put(t, w.list(t, resource("", "v1", "pods"), scene).UnstructuredContent(), root, "namespaces", scene, "core", "pods.yaml")
}

// stamped writes when a folder was collected, as oc does.
func stamped(t *testing.T, root string) {
	testenv.Must(t, os.WriteFile(filepath.Join(root, "timestamp"), fmt.Appendln(nil, time.Now().Add(-time.Minute)), 0o600))
}

func mustGather(t *testing.T, w environment, dir string) []string {
	root := filepath.Join(dir, "must-gather.local.1")
	image := filepath.Join(root, "quay-io-openshift-release-dev-sha256-1")
	inspected(t, w, image)
	for _, r := range []schema.GroupVersionResource{
		resource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"),
		resource("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations"),
		resource("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
		resource("apiregistration.k8s.io", "v1", "apiservices"),
	} {
		for _, o := range w.list(t, r, "").Items {
			put(t, o.Object, image, "cluster-scoped-resources", r.Group, r.Resource, o.GetName()+".yaml")
		}
	}
	testenv.Must(t, os.WriteFile(filepath.Join(root, "must-gather.logs"), []byte("a log: [\n"), 0o600))
	stamped(t, root)
	return []string{root}
}

func dumpAndConfiguration(t *testing.T, w environment, dir string) []string {
	root := filepath.Join(dir, "dump")
	w.Kubectl(t, "cluster-info", "dump", "--namespaces", scene, "--output-directory", root)
	return []string{root, configurationOf(t, w, dir)}
}

// configurationOf writes the configuration of the scene as kubectl prints it.
func configurationOf(t *testing.T, w environment, dir string) string {
	file := filepath.Join(dir, "configuration.yaml")
	text := w.Kubectl(t, "get", "validatingwebhookconfiguration", scene, "-o", "yaml")
	testenv.Must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// packedIn packs a folder, beside it; "" for a file.
func packedIn(t *testing.T, folder string) string {
	t.Helper()
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return ""
	}
	name := folder + ".tar.gz"
	file, err := os.Create(name)
	testenv.Must(t, err)
	packer := gzip.NewWriter(file)
	archive := tar.NewWriter(packer)
	testenv.Must(t, archive.AddFS(os.DirFS(filepath.Dir(folder))))
	for _, c := range []io.Closer{archive, packer, file} {
		testenv.Must(t, c.Close())
	}
	return name
}
