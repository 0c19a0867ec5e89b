package classify

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// notCore are the groups that are registered but are no resources of a stock
// cluster, each with its reason.
var notCore = map[string]string{
	"example.openshift.io":                      "an example for developers of the API, never installed",
	"kubecontrolplane.config.openshift.io":      "kinds of a configuration file, never served",
	"openshiftcontrolplane.config.openshift.io": "kinds of a configuration file, never served",
	"osin.config.openshift.io":                  "kinds of a configuration file, never served",
	"servicecertsigner.config.openshift.io":     "kinds of a configuration file, never served",
	"sharedresource.openshift.io":               "the Shared Resource CSI driver, an optional add-on",
	"testextension.redhat.io":                   "of OpenShift's own tests",
	"unidling.openshift.io":                     "fields of annotations, never served",
}

// TestCoreIsComplete: every group that a real API server serves, that OpenShift's
// API registers, that its documentation lists or that the stock webhooks are
// called for is core or an exception; and nothing else is either.
func TestCoreIsComplete(t *testing.T) {
	want := map[string]bool{}
	for _, s := range inventory.Builtins(inventory.Newest, false) {
		want[s.Group] = true
	}
	for _, group := range openshiftGroups(t) {
		want[group] = true
	}
	for line := range strings.Lines(source(t, "testdata/stock/groups.txt")) {
		if group, _, listed := strings.Cut(line, " "); listed && group != "#" {
			want[group] = true
		}
	}
	stock := fixture(t, stockFile)
	for _, crd := range stock.CRDs {
		want[crd.Resource.Group] = true
	}
	for _, w := range stock.Webhooks {
		for _, rule := range w.Rules {
			for _, group := range rule.APIGroups {
				if group != "*" {
					want[group] = true
				}
			}
		}
	}
	have := map[string]bool{}
	for _, group := range coreGroups() {
		have[group] = true
	}
	for group := range notCore {
		if have[group] {
			t.Errorf("group %q is both core and an exception", group)
		}
		have[group] = true
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("groups that exist (-) and groups that are core or an exception (+):\n%s", diff)
	}
}

// openshiftGroups reads the groups out of the source of github.com/openshift/api:
// all constants named GroupName or groupName. Its packages cannot all be
// imported, some need API versions that Kubernetes has removed.
func openshiftGroups(t *testing.T) []string {
	t.Helper()
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/openshift/api")
	list.Dir = filepath.Join("..", "..", "e2e") // whose module requires it
	dir, err := list.Output()
	if err != nil {
		t.Fatalf("finding github.com/openshift/api: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*", "*", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("finding the sources of github.com/openshift/api: %d files, %v", len(files), err)
	}
	var out []string
	for _, file := range files {
		if !strings.HasSuffix(file, "register.go") {
			continue
		}
		out = append(out, groupNames(t, file)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func groupNames(t *testing.T, file string) []string {
	t.Helper()
	f := must.Get(parser.ParseFile(token.NewFileSet(), file, nil, 0))(t)
	var out []string
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			if !strings.EqualFold(name.Name, "GroupName") || i >= len(spec.Values) {
				continue
			}
			if lit, ok := spec.Values[i].(*ast.BasicLit); ok {
				group := must.Get(strconv.Unquote(lit.Value))(t)
				out = append(out, group)
			}
		}
		return true
	})
	return out
}
