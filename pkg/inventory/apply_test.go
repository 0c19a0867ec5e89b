package inventory_test

import (
	_ "embed"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

func read(t *testing.T, text string) inventory.Objects {
	t.Helper()
	file := must.File(t, "objects.yaml", text)
	o, summary := manifest.Read([]string{file}, manifest.Options{})
	if len(o.Errors) > 0 {
		t.Fatal(o.Errors)
	}
	o.Inputs = summary.Inputs
	return o
}

//go:embed testdata/cluster.yaml
var applied string

//go:embed testdata/applied.yaml
var manifestsText string

// TestApplyForgetsNothing: whatever the manifests hold is among the objects that they are
// applied to, and is still to be applied there.
func TestApplyForgetsNothing(t *testing.T) {
	var manifests inventory.Objects
	lists := 0
	for _, f := range reflect.VisibleFields(reflect.TypeFor[inventory.Objects]()) {
		if len(f.Index) > 1 || f.Type.Kind() != reflect.Slice || f.Type.Elem().Kind() != reflect.Pointer {
			continue
		}
		lists++
		object := reflect.New(f.Type.Elem().Elem())
		object.Interface().(metav1.Object).SetName(f.Name)
		manifests.Add(object.Interface())
	}
	after := inventory.Objects{}.Apply(manifests)
	for _, all := range []inventory.Objects{after, after.Apply(manifests)} {
		seen := 0
		for _, field := range reflect.ValueOf(all).Fields() {
			if field.Kind() == reflect.Slice && field.Len() == 1 {
				seen++
			}
		}
		if seen != lists {
			t.Errorf("%d of %d lists have their object: %+v", seen, lists, all)
		}
	}
	key := inventory.SourceKey{Kind: inventory.KindValidating, Name: "injected"}
	if o := read(t, applied).Apply(read(t, manifestsText)); !o.Sources[key].ToApply || len(o.Manifests) == 0 || len(o.Inputs) != 2 {
		t.Errorf("%+v, %v, %v", o.Sources[key], o.Manifests, o.Inputs)
	}
	defer func() {
		if recover() == nil {
			t.Error("an object of no list is dropped without a word")
		}
	}()
	manifests.Add(&metav1.Status{})
}

// TestApply: what manifests lack stays, also the bundles that injectors wrote; what
// is behind a new Service is unknown, and behind an old one as it was.
func TestApply(t *testing.T) {
	cluster := read(t, applied)
	cluster.PoliciesKnown = true
	cluster.NamespacesKnown, cluster.ServicesKnown.All, cluster.EndpointsKnown.All = true, true, true
	s := cluster.Apply(read(t, manifestsText)).Snapshot(time.Unix(0, 0))
	found := map[string]*inventory.Webhook{}
	for _, w := range s.Webhooks {
		found[w.Name] = w
	}
	if len(found) != 4 || found["stays.example.com"] == nil {
		t.Fatalf("webhooks: %v", found)
	}
	if w := found["injected.example.com"]; string(w.Backend.CABundle) != "A" || !w.FailsClosed() || w.Object.Source.File == "" {
		t.Errorf("injected: %+v", w)
	}
	if w := found["added.example.com"]; string(w.Backend.CABundle) != "\n" || s.State(w.Backend).Known {
		t.Errorf("added: %+v", s.State(w.Backend))
	}
	w := found["widgets.example.com"]
	if string(w.Backend.CABundle) != "A" || len(w.CRD.StoredVersions) != 2 {
		t.Errorf("conversion: %+v", w.CRD)
	}
	if state := s.State(w.Backend); !state.Known || state.Fault != inventory.PortNotFound || state.Service.Port != 443 {
		t.Errorf("the old Service: %+v", state)
	}
	if len(s.Policies) != 1 || !s.Policies[0].FailsClosed() || len(s.Policies[0].Bindings) != 1 || len(s.Unbound) != 1 || !s.PoliciesKnown {
		t.Errorf("policies %+v, unbound %+v, known %v", s.Policies, s.Unbound, s.PoliciesKnown)
	}
	if labels, _ := s.NamespaceLabels("shop"); labels["team"] != "shop" || labels["stage"] != "prod" {
		t.Errorf("labels: %v", labels)
	}
}

// TestOwnPolicies: the policies that this program prints are its own by their label; a
// release of Helm outranks that.
func TestOwnPolicies(t *testing.T) {
	for metadata, want := range map[string]string{
		`{name: renamed, labels: {app.kubernetes.io/part-of: webhook-auditor}}`:                          "webhook-auditor/renamed",
		`{name: webhook-auditor-registration-warnings, annotations: {meta.helm.sh/release-name: audit}}`: "helm/audit",
		`{name: other}`: "",
	} {
		s := read(t, "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicy\nmetadata: "+metadata+"\nspec: {}\n").Snapshot(time.Time{})
		if got := s.Policies[0].Object.Owner.String(); got != want {
			t.Errorf("%s: owner %q, want %q", metadata, got, want)
		}
	}
}
