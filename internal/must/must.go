// Package must ends a test when what it needs fails.
package must

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Get returns what a function returned, and ends the test if it returned an error
// too:
//
//	text := must.Get(os.ReadFile(file))(t)
func Get[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Succeed(t, err)
		return value
	}
}

// Succeed ends the test if there is an error.
func Succeed(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Write writes a file, and the folders above it.
func Write(t testing.TB, file, text string) {
	t.Helper()
	Succeed(t, os.MkdirAll(filepath.Dir(file), 0o700))
	Succeed(t, os.WriteFile(file, []byte(text), 0o600))
}

// File returns a file of that name and text, in a folder of its own.
func File(t testing.TB, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	Write(t, file, text)
	return file
}

// Rows reads a table: a row a line, its columns apart by tabs, a new line in one written as
// \n. The last column may have tabs of its own. Lines that begin with # are comments.
func Rows(t testing.TB, file string, columns int) [][]string {
	t.Helper()
	var out [][]string
	for line := range strings.Lines(string(Get(os.ReadFile(file))(t))) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		row := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", columns)
		if len(row) != columns {
			t.Fatalf("%s: %d columns instead of %d in %q", file, len(row), columns, line)
		}
		for i := range row {
			row[i] = strings.ReplaceAll(row[i], `\n`, "\n")
		}
		out = append(out, row)
	}
	if len(out) == 0 {
		t.Fatalf("%s: no row, so that no test reads any", file)
	}
	return out
}
