package guard

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// owners are how Flux, Argo CD and Helm 4 (server-side apply), kubectl and Helm 3
// (a three-way merge), and OLM (PUT) bring a configuration to the state that they want, again
// and again, and the field manager that each leaves.
var owners = []struct {
	name, manager string
	// bring returns the object as it is once it is as wanted.
	bring func(t *testing.T, w environment, object *unstructured.Unstructured) *unstructured.Unstructured
}{
	{"server-side apply", "owner", bringServerSide},
	{"client-side apply", "kubectl-client-side-apply", bringClientSide},
	{"PUT", "owner", bringPut},
}

func bringServerSide(t *testing.T, w environment, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	return testenv.Get(w.configurations(object.GetKind()).Apply(t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: "owner"}))(t)
}

func bringClientSide(t *testing.T, w environment, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	encoded := testenv.Get(json.Marshal(object.Object))(t)
	file := testenv.File(t, "wanted.json", encoded)
	w.Kubectl(t, "apply", "-f", file)
	return w.read(t, object)
}

func bringPut(t *testing.T, w environment, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	live := w.read(t, object)
	if live == nil {
		made := testenv.Get(w.configurations(object.GetKind()).Create(t.Context(), object, metav1.CreateOptions{FieldManager: "owner"}))(t)
		return made
	}
	live.Object["webhooks"] = object.DeepCopy().Object["webhooks"]
	live.SetAnnotations(object.GetAnnotations())
	return testenv.Get(w.configurations(object.GetKind()).Update(t.Context(), live, metav1.UpdateOptions{FieldManager: "owner"}))(t)
}

// read returns what is there, nil for nothing.
func (w environment) read(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	live, err := w.configurations(object.GetKind()).Get(t.Context(), object.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	testenv.Must(t, err)
	return live
}

// TestReapplyIsNoHotLoop: however its owner brings a configuration to the state
// that it wants, the guard leaves nothing to do for any client that watches, and
// no other name in the managed fields. What an opt-in does is tested in manifests, and in
// TestRunLevelZeroStarts.
func TestReapplyIsNoHotLoop(t *testing.T) {
	t.Parallel()
	w := useGuarded(t)
	selecting := func(name string, selector map[string]any) map[string]any {
		hook := idle(name)
		hook["namespaceSelector"] = selector
		return hook
	}
	byExpression := map[string]any{"matchExpressions": []any{map[string]any{"key": "team", "operator": "Exists"}}}
	byLabel := map[string]any{"matchLabels": map[string]any{"team": "b"}}
	shapes := map[string][]any{
		"plain":     {idle("a"), idle("b")},
		"selecting": {selecting("a", byExpression), selecting("b", byLabel)},
	}
	for i, o := range owners {
		for kind := range guardedKinds {
			for shape, hooks := range shapes {
				t.Run(o.name+"/"+kind+"/"+shape, func(t *testing.T) {
					object := configuration(kind, fmt.Sprintf("reapplied-%d-%s", i, shape), hooks...)
					w.unregisterLater(t, object)
					first := o.bring(t, w, object)
					wantGuarded(t, first)
					for range 3 {
						wantUnchanged(t, first, o.bring(t, w, object))
					}
					wantManagers(t, first, o.manager)
				})
			}
		}
	}
}

// wantGuarded wants the exclusion as the last requirement of all webhooks.
func wantGuarded(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	if len(hooksOf(object)) == 0 {
		t.Fatalf("%s has no webhooks", object.GetName())
	}
	for i, h := range hooksOf(object) {
		have := requirements(h)
		if n := len(have); n == 0 || text(have[n-1:]) != text([]any{exclusion}) {
			t.Fatalf("webhook %d of %s requires %s, which does not end in the exclusion", i, object.GetName(), text(have))
		}
	}
}

// wantManagers wants the guard to have left no field manager of its own.
func wantManagers(t *testing.T, object *unstructured.Unstructured, want ...string) {
	t.Helper()
	var have []string
	for _, f := range object.GetManagedFields() {
		have = append(have, f.Manager)
	}
	if !slices.Equal(have, want) {
		t.Errorf("the field managers are %v, want %v", have, want)
	}
}
