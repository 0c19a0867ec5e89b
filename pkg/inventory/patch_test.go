package inventory

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// changed writes the changes of a patch of webhook a, b, …, each on a line.
func changed(t *testing.T, object string, patches ...string) string {
	t.Helper()
	var of map[string]any
	must.Succeed(t, json.Unmarshal([]byte(object), &of))
	var all []Patch
	for i, p := range patches {
		after, changes, err := ApplyPatch(of, []byte(p))
		must.Succeed(t, err)
		of, all = after, append(all, Patch{string(rune('a' + i)), changes})
	}
	MarkOverwritten(all)
	var out []string
	for _, p := range all {
		Redact(Resource{Name: "pods"}, nil, [][]Change{p.Changes})
		for _, c := range p.Changes {
			out = append(out, fmt.Sprintf("%s %s %s %v→%v %s", p.Webhook, c.Operation, c.Path, c.Old, c.Value, c.OverwrittenBy))
		}
	}
	return strings.Join(out, "\n")
}

// TestPatches: what each call changed, and what a later one changed of that.
func TestPatches(t *testing.T) {
	for _, row := range must.Rows(t, "testdata/patches.tsv", 5) {
		name, object, first, second, want := row[0], row[1], row[2], row[3], row[4]
		if got := changed(t, object, first, second); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	expect.Equal(t, "/spec/containers/*/env/*/labels/4", GeneralPath("/spec/containers/3/env/-/labels/4"))
}
