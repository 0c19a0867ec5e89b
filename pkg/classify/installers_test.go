package classify

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

// namesInOrder are the names of the objects in the order of the uninstaller.
func namesInOrder(name string, all []*inventory.Manifest) string {
	found := sequences(all)
	var out []string
	for _, n := range found[slices.IndexFunc(found, func(s sequence) bool { return s.writer == name })].steps {
		out = append(out, all[n].Name)
	}
	return strings.Join(out, " ")
}

// TestHelm holds the order against Helm's own, which e2e/helm writes: hooks stay.
func TestHelm(t *testing.T) {
	o, _ := manifest.Read([]string{"installers/order.yaml"}, manifest.Options{})
	var all []*inventory.Manifest
	for i := range o.Manifests {
		all = append(all, &o.Manifests[i])
	}
	for _, version := range []string{"3", "4"} {
		want := strings.Join(strings.Fields(string(must.Get(os.ReadFile("installers/order-"+version+".txt"))(t))), " ")
		if got := namesInOrder("Helm "+version, all); got != want || len(o.Errors) > 0 {
			t.Errorf("in the order of Helm %s: %s, want %s; errors: %v", version, got, want, o.Errors)
		}
	}
}
