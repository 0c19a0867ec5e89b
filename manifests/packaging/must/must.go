// Package must ends a test when what it needs fails, as internal/must does in the module
// above, of which this one has nothing.
package must

import "testing"

// Get returns what a function returned, and ends the test if it returned an error too.
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
