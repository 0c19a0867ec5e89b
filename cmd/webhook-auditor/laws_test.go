package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// rooms are the folders of the house and what they must never import, however
// indirectly. The facts and the opinions must stay free of the world.
var rooms = []struct {
	path  string
	never []string
}{
	{"pkg/inventory", []string{"k8s.io/client-go", "github.com/prometheus", "github.com/google/cel-go", module + "pkg/inventory/admission"}},
	{"pkg/inventory/admission", []string{"k8s.io/client-go", "github.com/prometheus"}},
	{"pkg/inventory/cluster", []string{"github.com/prometheus"}},
	{"pkg/inventory/manifest", []string{"k8s.io/client-go"}},
	{"pkg/inventory/observed", []string{"k8s.io/client-go"}},
	{"pkg/classify", []string{"k8s.io/client-go", "github.com/prometheus"}},
	{"pkg/classify/diagnose", []string{"k8s.io/client-go", "github.com/prometheus"}},
	{"pkg/exporter", []string{"k8s.io/client-go"}},
	{"pkg/exporter/report", []string{"k8s.io/client-go", "github.com/prometheus"}},
	{"pkg/exporter/page", []string{"k8s.io/client-go"}},
	{"rules", []string{"k8s.io/client-go"}},
	{"dashboards", []string{"k8s.io/client-go"}},
}

const module = "github.com/webhook-auditor/webhook-auditor/"

func TestImportLaw(t *testing.T) {
	for _, room := range rooms {
		out, err := exec.Command("go", "list", "-deps", module+room.path).Output()
		if err != nil {
			t.Fatalf("listing what %s imports: %v", room.path, err)
		}
		for dep := range strings.FieldsSeq(string(out)) {
			if slices.ContainsFunc(room.never, func(banned string) bool { return dep == banned || strings.HasPrefix(dep, banned+"/") }) {
				t.Errorf("%s imports %s", room.path, dep)
			}
		}
	}
}

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
