package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUpToDate: what is derived from the code is committed as derived.
func TestUpToDate(t *testing.T) {
	for _, a := range artifacts() {
		files, err := a.files()
		if err != nil {
			t.Errorf("deriving %s: %v", a.name, err)
		}
		for name, want := range files {
			have, err := os.ReadFile(filepath.Join("..", "..", name))
			if err != nil {
				t.Errorf("%v: run make generate", err)
				continue
			}
			if diff := cmp.Diff(string(want), string(have)); diff != "" {
				t.Errorf("%s is not up to date, run make generate: -derived +committed\n%s", name, diff)
			}
		}
	}
}
