package guard

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// owner brings a configuration to the state that it wants, as one of the tools
// does that install webhooks, and again and again.
type owner struct {
	name string
	// bring returns the object as it is once it is as wanted.
	bring func(t *testing.T, w environment, object *unstructured.Unstructured) *unstructured.Unstructured
	// manager is the field manager that is left behind.
	manager string
}

// owners are how Flux, Argo CD and Helm 4 (server-side apply), kubectl and Helm 3
// (a three-way merge), and OLM (PUT) do it.
var owners = []owner{
	{"server-side apply", bringServerSide, "owner"},
	{"client-side apply", bringClientSide, "kubectl-client-side-apply"},
	{"PUT", bringPut, "owner"},
}

func bringServerSide(t *testing.T, w environment, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	return testenv.Get(w.configurations(object.GetKind()).Apply(t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: "owner"}))(t)
}

func bringClientSide(t *testing.T, w environment, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	file := filepath.Join(t.TempDir(), "wanted.json")
	encoded := testenv.Get(json.Marshal(object.Object))(t)
	testenv.Must(t, os.WriteFile(file, encoded, 0o600))
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

// owned is a configuration and who owns it.
type owned struct {
	owner
	object *unstructured.Unstructured
}

func (o owned) name() string { return o.object.GetKind() + "/" + o.object.GetName() }

// bring makes the configuration as its owner wants it.
func (o owned) bring(t *testing.T, w environment) *unstructured.Unstructured {
	t.Helper()
	return o.owner.bring(t, w, o.object)
}

// allOwned are configurations of both kinds, with and without selectors, of
// all owners. Their names begin with the prefix.
func allOwned(prefix string) []owned {
	var out []owned
	for _, o := range owners {
		name := prefix + "-" + strings.ToLower(strings.ReplaceAll(o.name, " ", "-"))
		for kind := range guardedKinds {
			other := map[string]any{"key": "team", "operator": "Exists"}
			out = append(out,
				owned{o, configuration(kind, name+"-plain", idle("a"), idle("b"))},
				owned{o, configuration(kind, name+"-selecting",
					selecting(idle("a"), expressions(other)), selecting(idle("b"), map[string]any{"matchLabels": map[string]any{"team": "b"}}))})
		}
	}
	return out
}

// TestReapplyIsNoHotLoop: however its owner brings a configuration to the state
// that it wants, the guard leaves nothing to do for any client that watches, and
// no other name in the managed fields. What an opt-in does is tested in manifests, and in
// TestRunLevelZeroStarts.
func TestReapplyIsNoHotLoop(t *testing.T) {
	t.Parallel()
	w := useGuarded(t)
	for _, o := range allOwned("reapplied") {
		t.Run(o.name(), func(t *testing.T) {
			w.unregisterLater(t, o.object)
			first := o.bring(t, w)
			wantGuarded(t, first)
			for range 3 {
				wantUnchanged(t, first, o.bring(t, w))
			}
			wantManagers(t, first, o.manager)
		})
	}
}

// uninstallObjects deletes the objects, which may be gone already.
func (w environment) uninstallObjects(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range objects {
		testenv.Gone(t, w.client(t, o).Delete(context.Background(), o.GetName(), metav1.DeleteOptions{}))
	}
}

// client is the client of a cluster-scoped object's kind.
func (w environment) client(t *testing.T, object *unstructured.Unstructured) dynamic.ResourceInterface {
	t.Helper()
	groups := testenv.Get(restmapper.GetAPIGroupResources(w.Kube.Discovery()))(t)
	kind := object.GroupVersionKind()
	mapping := testenv.Get(restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(kind.GroupKind(), kind.Version))(t)
	return w.Dynamic.Resource(mapping.Resource)
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
