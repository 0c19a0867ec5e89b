package rules

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

// update is how make generate has the tests write what only Prometheus can
// derive: the texts of the alerts as it renders them.
var update = flag.Bool("update", false, "write what is derived")

// golden compares what was derived with the committed file.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not up to date: run make generate, and read what changed", file)
	}
}
