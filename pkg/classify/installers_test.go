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

// namesInOrder are the names of the objects in the order of the program.
func namesInOrder(installers []installer, name string, all []*inventory.Manifest) string {
	found := sequences(installers, all)
	var out []string
	for _, n := range found[slices.IndexFunc(found, func(s sequence) bool { return s.writer == name })].steps {
		out = append(out, all[n].Name)
	}
	return strings.Join(out, " ")
}

// TestHelm holds the order against Helm's own, which e2e/helm writes.
func TestHelm(t *testing.T) {
	o, _ := manifest.Read([]string{"installers/order.yaml"}, manifest.Options{})
	var all []*inventory.Manifest
	for i := range o.Manifests {
		all = append(all, &o.Manifests[i])
	}
	for _, version := range []string{"3", "4"} {
		want := strings.Join(strings.Fields(string(must.Get(os.ReadFile("installers/order-"+version+".txt"))(t))), " ")
		if got := namesInOrder(installers, "Helm "+version, all); got != want || len(o.Errors) > 0 {
			t.Errorf("in the order of Helm %s: %s, want %s; errors: %v", version, got, want, o.Errors)
		}
	}
}

// manifests makes one from each word: KIND/NAME[/ANNOTATION].
func manifests(words string) []*inventory.Manifest {
	var out []*inventory.Manifest
	for word := range strings.FieldsSeq(words) {
		parts := strings.SplitN(word, "/", 3)
		out = append(out, &inventory.Manifest{Kind: parts[0], Key: inventory.Key{Name: parts[1]}, Order: parts[2:]})
	}
	return out
}

// TestOrders: Argo CD goes by kinds, then by names. Uninstallers take kinds in reverse,
// Services before what is behind them, unknown kinds by name at the end; hooks stay.
func TestOrders(t *testing.T) {
	all := manifests("Widget/wagon Widget/ant ValidatingWebhookConfiguration/bee PriorityClass/cat Deployment/dog Service/eel CustomResourceDefinition/crd " +
		"MutatingWebhookConfiguration/mule APIService/api Namespace/fox Job/hook/helm.sh/hook Job/wave/argocd.argoproj.io/sync-wave Widget/kept/helm.sh/resource-policy")
	for _, test := range []struct {
		installers []installer
		name, want string
	}{
		{installers, "kubectl apply", "wagon ant bee cat dog eel crd mule api fox hook wave kept"},
		{installers, "Argo CD", "fox crd eel dog api ant bee cat kept mule wagon"},
		{uninstallers, "Helm 3", "api eel wave dog crd fox cat mule bee wagon ant"},
		{uninstallers, "Helm 4", "bee mule api eel wave dog crd fox cat wagon ant"},
	} {
		if got := namesInOrder(test.installers, test.name, all); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}
