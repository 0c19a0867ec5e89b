package rules

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write what is derived")

func TestUpToDate(t *testing.T) {
	for _, form := range Forms {
		got, err := Render(form, Options{})
		if err != nil {
			t.Fatal(err)
		}
		golden(t, string(form)+".yaml", got)
	}
}

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
		t.Errorf("%s is not up to date: run go test ./rules -run UpToDate -update", file)
	}
}
