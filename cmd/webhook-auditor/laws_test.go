package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// rooms are the folders of the house and what they must never import, however
// indirectly. The facts and the opinions must stay free of the world.
var rooms = []struct {
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

func TestImportLaw(t *testing.T) {
	for _, room := range rooms {
		out, err := exec.Command("go", "list", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+room.path).Output()
		if err != nil {
			t.Fatalf("listing what %s imports: %v", room.path, err)
		}
		for line := range strings.Lines(string(out)) {
			packages := strings.Fields(line)
			if slices.ContainsFunc(importers, func(folder string) bool { return isIn(packages[0], folder) }) {
				continue
			}
			for _, dep := range packages[1:] {
				if slices.ContainsFunc(room.never, func(banned string) bool { return isIn(dep, banned) }) {
					t.Errorf("%s imports %s, through %s", room.path, dep, packages[0])
				}
			}
		}
	}
}

// isIn reports whether the package is in the folder.
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
