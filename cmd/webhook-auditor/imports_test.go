package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/golden"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// forbiddenImports are the packages, and what they must never import, however indirectly.
// Those of facts and opinions must stay free of clusters, clients and clocks.
var forbiddenImports = []struct {
	path  string
	never []string
}{
	{"internal/promql", []string{"k8s.io", "github.com/prometheus"}},
	{"pkg/inventory", []string{"k8s.io/client-go", "github.com/prometheus", "github.com/google/cel-go", module + "pkg/inventory/admission"}},
	{"pkg/inventory/admission", []string{"k8s.io/client-go", "github.com/prometheus"}},
	{"pkg/inventory/cluster", []string{"github.com/prometheus"}},
	{"pkg/inventory/manifest", []string{"k8s.io/client-go"}},
	{"pkg/inventory/observed", []string{"k8s.io/client-go"}},
	{"pkg/classify", []string{"k8s.io/client-go", "github.com/prometheus"}},
	{"pkg/classify/start", []string{"k8s.io/client-go", "github.com/prometheus"}},
	{"pkg/classify/impact", []string{"k8s.io/client-go", "github.com/prometheus"}},
	{"pkg/classify/diagnose", []string{"k8s.io/client-go", "github.com/prometheus"}},
	{"pkg/exporter", []string{"k8s.io/client-go"}},
	{"pkg/exporter/report", []string{"k8s.io/client-go", "github.com/prometheus"}},
	{"pkg/exporter/page", []string{"k8s.io/client-go"}},
	{"rules", []string{"k8s.io/client-go"}},
	{"dashboards", []string{"k8s.io/client-go"}},
	{"cmd/webhook-auditor/arguments", []string{"k8s.io/client-go", "github.com/prometheus"}},
	// The first come with the types of every API group, a quarter of the program.
	{"cmd/webhook-auditor", []string{"k8s.io/client-go/kubernetes", "k8s.io/client-go/discovery", "k8s.io/client-go/applyconfigurations", "testing"}},
}

// importers are packages whose imports do not count: k8s.io/apiserver/pkg/cel/environment
// and its plugin, from which admission takes the environment of matchConditions,
// read feature gates, and those count themselves in a registry that nothing here
// serves. An environment that cannot differ from the API server's is worth 36
// packages (1.3 MB of the binary, 5 ms of its start).
var importers = []string{"k8s.io/component-base/metrics", "github.com/prometheus"}

const module = "github.com/webhook-auditor/webhook-auditor/"

func TestImports(t *testing.T) {
	for _, p := range forbiddenImports {
		out, err := exec.Command("go", "list", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+p.path).Output()
		if err != nil {
			t.Fatalf("listing what %s imports: %v", p.path, err)
		}
		for line := range strings.Lines(string(out)) {
			packages := strings.Fields(line)
			if slices.ContainsFunc(importers, func(folder string) bool { return isIn(packages[0], folder) }) {
				continue
			}
			for _, dep := range packages[1:] {
				if slices.ContainsFunc(p.never, func(banned string) bool { return isIn(dep, banned) }) {
					t.Errorf("%s imports %s, through %s", p.path, dep, packages[0])
				}
			}
		}
	}
}

// drawing is what stands between these lines of docs/design.md.
var drawing = regexp.MustCompile("(?s)(<!-- Drawn by TestDrawing[^\n]*-->\n\n```text\n).*?(```\n)")

// TestDrawing: the drawing of the parts is that of "go list". A package stands above those that it
// imports; what these import in turn is left out. -update draws it anew.
func TestDrawing(t *testing.T) {
	const format = `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`
	list := must.Get(exec.Command("go", "list", "-f", format, module+"cmd/webhook-auditor/...", module+"pkg/...", module+"rules", module+"dashboards", module+"manifests").Output())(t)
	imports := map[string][]string{}
	for line := range strings.Lines(string(list)) {
		packages := strings.Fields(line)
		for i, p := range packages {
			packages[i] = strings.TrimPrefix(strings.TrimPrefix(p, module), "pkg/")
		}
		imports[packages[0]] = slices.DeleteFunc(packages[1:], func(p string) bool { return !strings.HasPrefix(p, "cmd/") && !isPart(p) })
	}
	var reaches func(importer, imported string) bool
	reaches = func(importer, imported string) bool {
		return slices.ContainsFunc(imports[importer], func(p string) bool { return p == imported || reaches(p, imported) })
	}
	var height func(string) int
	height = func(p string) int {
		most := 0
		for _, below := range imports[p] {
			most = max(most, 1+height(below))
		}
		return most
	}
	order := slices.Sorted(maps.Keys(imports))
	slices.SortStableFunc(order, func(a, b string) int { return height(b) - height(a) })
	var b strings.Builder
	for _, p := range order {
		direct := slices.DeleteFunc(slices.Clone(imports[p]), func(d string) bool {
			return slices.ContainsFunc(imports[p], func(other string) bool { return other != d && reaches(other, d) })
		})
		fmt.Fprintf(&b, "%d  %-32s %s\n", height(p), p, strings.Join(direct, ", "))
	}
	page := must.Get(os.ReadFile("../../docs/design.md"))(t)
	golden.Compare(t, "../../../docs/design.md", drawing.ReplaceAll(page, []byte("${1}"+trailing.ReplaceAllString(b.String(), "\n")+"${2}")))
}

var trailing = regexp.MustCompile(` +\n`)

func isPart(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return slices.Contains([]string{"inventory", "classify", "exporter", "rules", "dashboards", "manifests"}, first)
}

func isIn(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

// TestEndToEndIsABlackBox: the tests of the finished binary know nothing of its
// inside.
func TestEndToEndIsABlackBox(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-test", "./...")
	list.Dir = "../../e2e"
	out, err := list.Output()
	if err != nil {
		t.Fatalf("listing what e2e imports: %v", err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		if rest, ours := strings.CutPrefix(dep, module); ours && !strings.HasPrefix(rest, "e2e") {
			t.Errorf("e2e imports %s", dep)
		}
	}
}

// TestWritersEvaluateNothing: reports and pages write what was found; a page asks besides what
// its user does.
func TestWritersEvaluateNothing(t *testing.T) {
	for _, folder := range []string{"report", "page"} {
		for _, file := range must.Get(filepath.Glob("../../pkg/exporter/" + folder + "/*.go"))(t) {
			text := must.Get(os.ReadFile(file))(t)
			if !strings.HasSuffix(file, "_test.go") && filepath.Base(file) != "ask.go" && regexp.MustCompile(`\bMatcher\b`).Match(text) {
				t.Errorf("%s asks a Matcher", file)
			}
		}
	}
}
