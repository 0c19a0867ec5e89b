// Package packaging holds that the three ways to install the auditor say the
// same, and builds its image. It is a module of its own, because kustomize and
// Helm are heavy and no other package needs them.
package packaging

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	v2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/manifests/packaging/must"
)

type objects map[string]map[string]any

func (o objects) add(t *testing.T, text []byte) {
	t.Helper()
	for part := range bytes.SplitSeq(append([]byte("\n"), text...), []byte("\n---\n")) {
		var object map[string]any
		part = append(slices.Clip(part), '\n')
		if err := yaml.UnmarshalStrict(part, &object); err != nil {
			t.Fatalf("reading %.80s: %v", part, err)
		}
		if len(object) == 0 {
			continue
		}
		meta := object["metadata"].(map[string]any)
		namespace, _ := meta["namespace"].(string)
		id := strings.Join([]string{object["kind"].(string), namespace, meta["name"].(string)}, "/")
		if o[id] != nil {
			t.Errorf("%s is there twice", id)
		}
		o[id] = object
	}
}

// kustomized is what kubectl apply -k sends, with kustomize's usual limits on
// what a kustomization may read.
func kustomized(t *testing.T, dir string) objects {
	t.Helper()
	return built(t, filepath.Join("..", dir))
}

func built(t *testing.T, dir string) objects {
	t.Helper()
	made := must.Get(krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir))(t)
	text := must.Get(made.AsYaml())(t)
	out := objects{}
	out.add(t, text)
	return out
}

// kustomization is a kustomization of a user, of a folder and a component.
func kustomization(t *testing.T, resource, component string) objects {
	t.Helper()
	here := must.Get(os.Getwd())(t)
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	relative := func(path string) string {
		to := must.Get(filepath.Rel(dir, filepath.Join(here, "..", path)))(t)
		return to
	}
	text := fmt.Sprintf("resources: [%q]\ncomponents: [%q]\n", relative(resource), relative(component))
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600))
	return built(t, dir)
}

// templated is what helm install sends.
func templated(t *testing.T, namespace, values string) (objects, error) {
	t.Helper()
	chart := must.Get(loader.LoadDir("../chart"))(t)
	chart.Metadata.AppVersion = "latest" // the other ways name the image that make image builds
	files, err := rendered(chart, namespace, values)
	if err != nil {
		return nil, err
	}
	out := objects{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".yaml") {
			out.add(t, []byte(files[name]))
		}
	}
	out.withoutHelm()
	return out, nil
}

// withoutHelm drops what is for Helm alone: its tests, and that it leaves the
// namespace.
func (o objects) withoutHelm() {
	maps.DeleteFunc(o, func(id string, _ map[string]any) bool { return strings.HasPrefix(id, "Pod/") })
	for _, object := range o {
		meta := object["metadata"].(map[string]any)
		annotations, _ := meta["annotations"].(map[string]any)
		delete(annotations, "helm.sh/resource-policy")
		if len(annotations) == 0 {
			delete(meta, "annotations")
		}
	}
}

// rendered are the files that Helm makes of the chart's templates.
func rendered(chart *v2.Chart, namespace, values string) (map[string]string, error) {
	parsed, err := common.ReadValues([]byte(values))
	if err != nil {
		return nil, fmt.Errorf("reading the values: %w", err)
	}
	release := common.ReleaseOptions{Name: "webhook-auditor", Namespace: namespace, IsInstall: true}
	filled, err := util.ToRenderValues(chart, parsed, release, common.DefaultCapabilities)
	if err != nil {
		return nil, fmt.Errorf("checking the values: %w", err)
	}
	return engine.Render(chart, filled)
}

// file is what kubectl apply -f sends.
func file(t *testing.T, path string) objects {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("..", path)))(t)
	out := objects{}
	out.add(t, text)
	return out
}

func (o objects) withoutGroup(group string) objects {
	out := objects{}
	for id, object := range o {
		if !strings.HasPrefix(object["apiVersion"].(string), group+"/") {
			out[id] = object
		}
	}
	return out
}

const (
	namespace = "webhook-auditor"
	openshift = "openshift-webhook-auditor"
)

func TestWaysToInstallSayTheSame(t *testing.T) {
	install := file(t, "install.yaml")
	for _, test := range []struct {
		name              string
		want              objects
		namespace, values string
	}{
		{"install.yaml", install, namespace, `namespace: {create: true}`},
		{"base", kustomized(t, "base"), namespace, `{namespace: {create: true}, prometheusOperator: {enabled: true}}`},
		{"overlays/kubernetes", kustomized(t, "overlays/kubernetes"), namespace, `{namespace: {create: true}, prometheusOperator: {enabled: true}, grafana: {enabled: true}}`},
		{"overlays/openshift", kustomized(t, "overlays/openshift"), openshift, `{namespace: {create: true}, openshift: {enabled: true}}`},
		{
			"the enhancement with overlays/openshift", kustomization(t, "overlays/openshift", "parts/enhancement"), openshift,
			`{namespace: {create: true}, openshift: {enabled: true}, extraArgs: [--degraded=enhancement], alerts: {severities: enhancement}}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := must.Get(templated(t, test.namespace, test.values))(t)
			compare(t, test.want, got)
		})
	}
	t.Run("base and install.yaml", func(t *testing.T) {
		compare(t, kustomized(t, "base").withoutGroup("monitoring.coreos.com"), install)
	})
}

// unspaced compares expressions but for their line breaks: a chart fills numbers in after an expression is printed.
var unspaced = cmp.FilterPath(func(path cmp.Path) bool {
	index, isIndex := path.Last().(cmp.MapIndex)
	return isIndex && index.Key().String() == "expr"
}, cmp.Transformer("unspaced", func(expr any) string { return strings.Join(strings.Fields(fmt.Sprint(expr)), "") }))

// compare wants the same objects, and says which differ.
func compare(t *testing.T, want, got objects) {
	t.Helper()
	all := maps.Clone(want)
	maps.Copy(all, got)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if diff := cmp.Diff(want[id], got[id], unspaced); diff != "" {
			t.Errorf("%s: -want +got\n%s", id, diff)
		}
	}
}

// TestPrintedDashboards: kustomize makes the ConfigMaps that are printed.
func TestPrintedDashboards(t *testing.T) {
	text := must.Get(exec.Command("../../bin/webhook-auditor", "print", "dashboards", "--form", "configmap").Output())(t)
	printed := objects{}
	printed.add(t, text)
	built := objects{}
	for _, object := range kustomized(t, "parts/grafana") {
		meta := object["metadata"].(map[string]any)
		delete(meta, "namespace")
		built[strings.Join([]string{"ConfigMap", "", meta["name"].(string)}, "/")] = object
	}
	compare(t, printed, built)
}
