package operator

import (
	"reflect"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// TestGrowthOverFindings: critical findings come and go, of which none comes twice, at a
// rate above that of Events. What writes of them holds no more after two thousand than
// after one, which take longer than the API server keeps Events.
func TestGrowthOverFindings(t *testing.T) {
	const first, all = 1000, 2000
	r := newReplica(t, newAPIServer(t), newClock(), "a")
	found := many(all)
	var before map[string]int
	for i := range all {
		one := *found
		one.Findings = found.Findings[i : i+1]
		for _, report := range []*classify.Report{&one, up()} {
			r.observes(report)
			r.passes(leaseInterval)
		}
		if i+1 == first {
			before = lengthsIn(r.Writer)
		}
	}
	if before["Writer.events.last"] == 0 {
		t.Errorf("no Event is recorded, so the test shows nothing: %v", before)
	}
	for path, now := range lengthsIn(r.Writer) {
		if was := before[path]; now > was+was/4+10 {
			t.Errorf("after %d findings %s has %d elements, after %d it had %d", all, path, now, first, was)
		}
	}
}

// lengthsIn are the lengths of all maps and slices of what writes, by the fields that
// hold them.
func lengthsIn(w *Writer) map[string]int {
	out := map[string]int{}
	var add func(path string, v reflect.Value)
	add = func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Map, reflect.Slice:
			out[path] = v.Len()
		case reflect.Pointer:
			if v.Type().Elem().PkgPath() == reflect.TypeFor[Writer]().PkgPath() {
				add(path, v.Elem())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				add(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
		}
	}
	add("Writer", reflect.ValueOf(w).Elem())
	return out
}
