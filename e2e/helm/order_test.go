// Package helm compares what the auditor knows of Helm with Helm's own code. It imports
// nothing of the auditor's.
package helm

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	helm3 "helm.sh/helm/v3/pkg/releaseutil"
	helm4 "helm.sh/helm/v4/pkg/release/v1/util"
)

var update = flag.Bool("update", false, "write the files that differ")

const installer = "../../pkg/inventory/installer/"

// TestKinds holds the lists of kinds against those by which Helm sorts.
func TestKinds(t *testing.T) {
	golden(t, installer+"helm-3.txt", strings.Join(helm3.InstallOrder, "\n")+"\n")
	golden(t, installer+"helm-4.txt", strings.Join(helm4.InstallOrder, "\n")+"\n")
}

// hook is one as Helm runs it, by what counts for the order.
type hook struct {
	name   string
	weight int
	events []string
}

// TestOrder has Helm sort the objects that TestHelm of the package installer sorts.
func TestOrder(t *testing.T) {
	input, err := os.ReadFile(installer + "testdata/order.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"templates/all.yaml": string(input)}
	hooks3, main3, err := helm3.SortManifests(files, nil, helm3.InstallOrder)
	if err != nil {
		t.Fatal(err)
	}
	var hooks []hook
	for _, h := range hooks3 {
		hooks = append(hooks, hook{h.Name, h.Weight, words(h.Events)})
	}
	var main []string
	for _, m := range main3 {
		main = append(main, m.Head.Metadata.Name)
	}
	golden(t, installer+"testdata/order-3.txt", sequence(hooks, main))

	hooks4, main4, err := helm4.SortManifests(files, nil, helm4.InstallOrder)
	if err != nil {
		t.Fatal(err)
	}
	hooks, main = nil, nil
	for _, h := range hooks4 {
		hooks = append(hooks, hook{h.Name, h.Weight, words(h.Events)})
	}
	for _, m := range main4 {
		main = append(main, m.Head.Metadata.Name)
	}
	golden(t, installer+"testdata/order-4.txt", sequence(hooks, main))
}

func words[T fmt.Stringer](events []T) []string {
	var out []string
	for _, e := range events {
		out = append(out, e.String())
	}
	return out
}

// sequence are the names in the order of an installation: execHook in pkg/action/hooks.go
// of Helm, which is not exported, sorts by weight and name what is sorted by kind.
func sequence(hooks []hook, main []string) string {
	slices.SortStableFunc(hooks, func(a, b hook) int { return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(a.name, b.name)) })
	var out []string
	of := func(event string) {
		for _, h := range hooks {
			if slices.Contains(h.events, event) && !slices.Contains(out, h.name) {
				out = append(out, h.name)
			}
		}
	}
	of("pre-install")
	out = append(out, main...)
	of("post-install")
	return strings.Join(out, "\n") + "\n"
}

// golden compares with a file.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != got {
		t.Errorf("%s: %v: go test ./e2e/helm -update, in that folder, writes it again; Helm has:\n%s", path, err, got)
	}
}
