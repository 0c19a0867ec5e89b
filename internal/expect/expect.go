// Package expect compares what a test got with what it wants.
package expect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Equal reports how got differs from want.
func Equal(t testing.TB, want, got any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Contains reports which of the texts are not in got.
func Contains(t testing.TB, got string, want ...string) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(got, text) {
			t.Errorf("no %q in:\n%s", text, got)
		}
	}
}

// Results reports which inputs have another result than the one wanted; nil is as good as
// empty.
func Results[In comparable, Out any](t testing.TB, f func(In) Out, want map[In]Out) {
	t.Helper()
	for input, out := range want {
		if diff := cmp.Diff(out, f(input), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("of %#v: -want +got:\n%s", input, diff)
		}
	}
}
