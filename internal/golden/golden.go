// Package golden compares what tests render with committed files.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Compare compares got with a file of testdata, or writes it.
func Compare(t testing.TB, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		must.Succeed(t, os.WriteFile(file, got, 0o644))
	}
	if diff := cmp.Diff(string(must.Get(os.ReadFile(file))(t)), string(got)); diff != "" {
		t.Errorf("%s differs: if that is meant, run go test -run '%s' -update in its package; -committed +rendered\n%s", file, t.Name(), diff)
	}
}
