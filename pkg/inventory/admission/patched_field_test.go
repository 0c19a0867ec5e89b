package admission

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
)

func TestAddedPaths(t *testing.T) {
	expect.Results(t, addedPaths, map[string][]string{
		`[JSONPatch{op: "add", path: "/spec/x", value: 1}]`:                                          {"/spec/x"},
		`[JSONPatch{op: "replace", path: "/spec/x", value: 1}, JSONPatch{op: "add", path: "/data"}]`: {"/data"},
		`[JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("a/b"), value: 1}]`:   {""},
		`has(object.spec) ? [JSONPatch{op: "add", path: "/spec/x"}] : []`:                            nil,
		`[?optional.of(JSONPatch{op: "add", path: "/x"}), object.y]`:                                 nil,
		`not CEL`: nil,
		``:        nil,
	})
}

func TestHasField(t *testing.T) {
	pod, config := reflect.TypeFor[corev1.Pod](), reflect.TypeFor[corev1.ConfigMap]()
	for path, want := range map[string]struct{ pod, config bool }{
		"":                          {true, true},
		"/":                         {true, true}, // a field without a name
		"/spec":                     {true, false},
		"/data":                     {false, true},
		"/data/key":                 {true, true}, // of a Pod, the patch does not apply
		"/metadata/labels/a~1b":     {true, true},
		"/metadata/lables":          {false, false},
		"/spec/priorityClassName":   {true, true},
		"/spec/priorityClasName":    {false, true},
		"/spec/containers/0/imge":   {true, true},
		"/spec/securityContext/foo": {true, true},
		"/apiVersion":               {true, true},
	} {
		if got := hasField(pod, path); got != want.pod {
			t.Errorf("Pods have %s: %t", path, got)
		}
		if got := hasField(config, path); got != want.config {
			t.Errorf("ConfigMaps have %s: %t", path, got)
		}
	}
}
