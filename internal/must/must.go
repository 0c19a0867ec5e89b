// Package must ends a test when what it needs fails.
package must

import (
	"os"
	"path/filepath"
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
