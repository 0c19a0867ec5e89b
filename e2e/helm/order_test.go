// Package helm compares what the auditor knows of Helm with Helm's own code. It imports
// nothing of the auditor's.
package helm

import (
	"flag"
	"os"
	"strings"
	"testing"

	helm3 "helm.sh/helm/v3/pkg/releaseutil"
	helm4 "helm.sh/helm/v4/pkg/release/v1/util"
)

var update = flag.Bool("update", false, "write the files that differ")

const installers = "../../pkg/classify/installers/"

// TestKinds holds the lists of kinds against those by which Helm sorts.
func TestKinds(t *testing.T) {
	golden(t, installers+"helm-3.txt", strings.Join(helm3.InstallOrder, "\n")+"\n")
	golden(t, installers+"helm-4.txt", strings.Join(helm4.InstallOrder, "\n")+"\n")
	golden(t, installers+"helm-3-removes.txt", strings.Join(helm3.UninstallOrder, "\n")+"\n")
	golden(t, installers+"helm-4-removes.txt", strings.Join(helm4.UninstallOrder, "\n")+"\n")
}

// TestOrder has Helm sort the objects that TestHelm of the package classify sorts.
func TestOrder(t *testing.T) {
	input, err := os.ReadFile(installers + "order.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"templates/all.yaml": string(input)}
	_, all3, err := helm3.SortManifests(files, nil, helm3.InstallOrder)
	if err != nil {
		t.Fatal(err)
	}
	order := ""
	for _, m := range all3 {
		order += m.Head.Metadata.Name + "\n"
	}
	golden(t, installers+"order-3.txt", order)

	_, all4, err := helm4.SortManifests(files, nil, helm4.InstallOrder)
	if err != nil {
		t.Fatal(err)
	}
	order = ""
	for _, m := range all4 {
		order += m.Head.Metadata.Name + "\n"
	}
	golden(t, installers+"order-4.txt", order)
}

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
