package expect

import (
	"strings"
	"testing"
)

type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestDifferencesAreReported(t *testing.T) {
	for name, test := range map[string]struct {
		compare func(testing.TB)
		fails   bool
	}{
		"equal":         {func(t testing.TB) { Equal(t, []int{1}, []int{1}) }, false},
		"different":     {func(t testing.TB) { Equal(t, []int{1}, []int{2}) }, true},
		"nil and empty": {func(t testing.TB) { Equal(t, []int(nil), []int{}) }, true},
		"contained":     {func(t testing.TB) { Contains(t, "a pod", "a", "pod") }, false},
		"not contained": {func(t testing.TB) { Contains(t, "a pod", "a", "node") }, true},
		"results":       {func(t testing.TB) { Results(t, strings.Fields, map[string][]string{"a b": {"a", "b"}, "": nil}) }, false},
		"other results": {func(t testing.TB) { Results(t, strings.ToUpper, map[string]string{"a": "A", "b": "b"}) }, true},
	} {
		r := &recorder{TB: t}
		if test.compare(r); r.failed != test.fails {
			t.Errorf("%s: fails %v, want %v", name, r.failed, test.fails)
		}
	}
}
