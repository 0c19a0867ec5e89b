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
	for name, c := range map[string]struct{ object, first, second, want string }{
		"set otherwise": {`{"a":1}`, `[{"op":"replace","path":"/a","value":2}]`, `[{"op":"add","path":"/a","value":3}]`, "a replace /a 1→2 b\nb add /a 2→3 "},
		"set alike":     {`{"a":1}`, `[{"op":"replace","path":"/a","value":2}]`, `[{"op":"add","path":"/a","value":2}]`, "a replace /a 1→2 \nb add /a 2→2 "},
		"beside":        {`{"a":{}}`, `[{"op":"add","path":"/a/b","value":2}]`, `[{"op":"add","path":"/a/bc","value":3}]`, "a add /a/b <nil>→2 \nb add /a/bc <nil>→3 "},
		"parent": {
			`{"a":{}}`, `[{"op":"add","path":"/a/x.y~1z","value":2}]`, `[{"op":"add","path":"/a","value":{}}]`,
			"a add /a/x.y~1z <nil>→2 b\nb add /a map[x.y/z:2]→map[] ",
		},
		"a parent that keeps it": {
			`{"a":{}}`, `[{"op":"add","path":"/a/x","value":2}]`, `[{"op":"add","path":"/a","value":{"x":2,"y":3}}]`,
			"a add /a/x <nil>→2 \nb add /a map[x:2]→map[x:2 y:3] ",
		},
		"a part of it": {
			`{}`, `[{"op":"add","path":"/a","value":{"x":2,"y":3}}]`, `[{"op":"replace","path":"/a/x","value":4},{"op":"add","path":"/a/z","value":5}]`,
			"a add /a <nil>→map[x:2 y:3] b\nb replace /a/x 2→4 \nb add /a/z <nil>→5 ",
		},
		"a part of what is appended": {
			`{"l":[]}`, `[{"op":"add","path":"/l/-","value":{"i":"x"}}]`, `[{"op":"add","path":"/l/0","value":{}},{"op":"replace","path":"/l/1/i","value":"y"}]`,
			"a add /l/0 <nil>→map[i:x] b\nb add /l/0 <nil>→map[] \nb replace /l/1/i x→y ",
		},
		"both remove the first": {
			`{"l":[1,2]}`, `[{"op":"remove","path":"/l/0"}]`, `[{"op":"remove","path":"/l/0"}]`, "a remove /l/0 1→<nil> \nb remove /l/0 2→<nil> ",
		},
		"whole object": {`{"a":1}`, `[{"op":"add","path":"/b","value":2}]`, `[{"op":"replace","path":"","value":{"a":1}}]`, "a add /b <nil>→2 b\nb replace  map[a:1 b:2]→map[a:1] "},
		"inserted before": {
			`{"l":[{"i":1}]}`, `[{"op":"replace","path":"/l/0/i","value":2}]`, `[{"op":"add","path":"/l/0","value":{}},{"op":"replace","path":"/l/1/i","value":3}]`,
			"a replace /l/0/i 1→2 b\nb add /l/0 <nil>→map[] \nb replace /l/1/i 2→3 ",
		},
		"appended, then removed": {
			`{"l":[1]}`, `[{"op":"add","path":"/l/-","value":2}]`, `[{"op":"remove","path":"/l/0"},{"op":"remove","path":"/l/0"}]`,
			"a add /l/1 <nil>→2 b\nb remove /l/0 1→<nil> \nb remove /l/0 2→<nil> ",
		},
		"moved away":       {`{"a":1}`, `[{"op":"replace","path":"/a","value":2}]`, `[{"op":"move","from":"/a","path":"/b"}]`, "a replace /a 1→2 b\nb move /b <nil>→2 "},
		"a key of digits":  {`{"data":{"0":"x"}}`, `[{"op":"add","path":"/data/0","value":"y"}]`, `[{"op":"add","path":"/data/0","value":"z"}]`, "a add /data/0 x→y b\nb add /data/0 y→z "},
		"a test is none":   {`{"a":1}`, `[{"op":"test","path":"/a","value":1}]`, `[]`, ""},
		"values of an env": {`{"c":[]}`, `[{"op":"add","path":"/c/-","value":{"env":[{"value":"s"}]}}]`, `[{"op":"add","path":"/c/0/env/0","value":"s"}]`, "a add /c/0 <nil>→map[env:(hidden)] \nb add /c/0/env/0 <nil>→(hidden) "},
		"a Secret within":  {`{}`, `[{"op":"add","path":"/o","value":{"kind":"Secret","data":{"a":"s"}}}]`, `[]`, "a add /o <nil>→map[data:(hidden) kind:Secret] "},
	} {
		if got := changed(t, c.object, c.first, c.second); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
	expect.Equal(t, "/spec/containers/*/env/*/labels/4", GeneralPath("/spec/containers/3/env/-/labels/4"))
}
