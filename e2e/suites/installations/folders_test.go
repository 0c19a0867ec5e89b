package installations

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// operators are the modules of released operators, with their versions and the folders of their kustomizations.
//
//go:embed testdata/folders.txt
var operators string

type source struct{ module, version, folder string }

// TestFolders: of the folder of a kustomization the findings are those of what kubectl builds of
// it, and of the folder above all no warning is one that none of these has.
func TestFolders(t *testing.T) {
	auditor := build(t)
	var modules []installation
	var sources []source
	for line := range strings.Lines(operators) {
		words := strings.Fields(line)
		sources = append(sources, source{words[0], words[1], words[2]})
		modules = append(modules, installation{Module: words[0], Version: words[1]})
	}
	var compared atomic.Int32
	folders := download(t, modules)
	for _, s := range sources {
		t.Run(s.module+"/"+s.folder, func(t *testing.T) {
			t.Parallel()
			top := filepath.Join(folders[s.module+"@"+s.version], s.folder)
			var warned []string
			for _, folder := range kustomizations(t, top) {
				out, err := exec.Command("../../bin/kubectl", "kustomize", folder).Output()
				if err != nil || !strings.Contains(string(out), "ebhook") {
					continue
				}
				built, read := findings(t, auditor, string(out), "-"), findings(t, auditor, "", folder)
				if describesBundle(folder, string(out)) { // its samples are no objects
					built = slices.DeleteFunc(built, func(f string) bool { return !slices.Contains(read, f) })
				}
				if !slices.Equal(built, read) {
					t.Errorf("%s: %d findings, and %d of what is built:\n%s", folder, len(read), len(built), difference(read, built))
				}
				warned = append(warned, built...)
				compared.Add(1)
			}
			for _, f := range findings(t, auditor, "", top) {
				if !strings.HasPrefix(f, "info") && !slices.Contains(warned, f) {
					t.Errorf("%s: no kustomization has %s", top, f)
				}
			}
		})
	}
	t.Cleanup(func() {
		if n := compared.Load(); n < 30 {
			t.Errorf("%d folders are compared: want 30", n)
		}
	})
}

// describesBundle reports whether operator-sdk makes a bundle of what is built of the folder.
func describesBundle(folder, built string) bool {
	own, _ := filepath.Glob(filepath.Join(folder, "bases/*.clusterserviceversion.yaml"))
	below, _ := filepath.Glob(filepath.Join(folder, "*/bases/*.clusterserviceversion.yaml"))
	return len(own)+len(below) > 0 || strings.Contains(built, "\nkind: ClusterServiceVersion\n")
}

// kustomizations are the folders of those below a directory.
func kustomizations(t *testing.T, top string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && slices.Contains([]string{"kustomization.yaml", "kustomization.yml"}, entry.Name()) {
			out = append(out, filepath.Dir(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func findings(t *testing.T, auditor, stdin, path string) []string {
	t.Helper()
	command := exec.Command(auditor, "audit", "-o", "json", "--fail-on", "never", "--allow-empty", path)
	command.Stdin = strings.NewReader(stdin)
	text, err := command.Output()
	var d document
	if failed := json.Unmarshal(text, &d); failed != nil {
		t.Fatalf("%s: %v: %v", path, err, failed)
	}
	var out []string
	for _, f := range d.Findings {
		out = append(out, fmt.Sprintf("%s %s on %s: %s", f.Severity, f.Check, f.Name, f.Message))
	}
	slices.Sort(out)
	return out
}

// difference are the lines that one of two lists has.
func difference(read, built []string) string {
	var out strings.Builder
	for _, f := range read {
		if !slices.Contains(built, f) {
			out.WriteString("+ " + f + "\n")
		}
	}
	for _, f := range built {
		if !slices.Contains(read, f) {
			out.WriteString("- " + f + "\n")
		}
	}
	return out.String()
}
