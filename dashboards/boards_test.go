package dashboards

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "write the committed files anew")

// TestUpToDate holds the committed files against the table.
func TestUpToDate(t *testing.T) {
	committed := map[string]bool{}
	for _, form := range Committed {
		files, err := Render(form)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			committed[name] = true
			if *update {
				if err := os.WriteFile(name, files[name], 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, err := os.ReadFile(name)
			if err != nil {
				t.Errorf("%v: run go test ./dashboards -update", err)
				continue
			}
			if !bytes.Equal(got, files[name]) {
				t.Errorf("%s differs from the table: run go test ./dashboards -update", name)
			}
		}
	}
	for _, pattern := range []string{"*.json", "*.yaml"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !committed[name] {
				t.Errorf("%s is of no form", name)
			}
		}
	}
}

// TestRenderTwice finds what depends on the order of maps, or counts across
// boards as the constructors of the console's SDK do.
func TestRenderTwice(t *testing.T) {
	for _, form := range Forms {
		first, err := Print(form)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			again, err := Print(form)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(first, again) {
				t.Fatalf("%s differs from one time to the next", form)
			}
		}
	}
}

func TestUnknownForm(t *testing.T) {
	if _, err := Print("pdf"); err == nil {
		t.Error("no error")
	}
}
