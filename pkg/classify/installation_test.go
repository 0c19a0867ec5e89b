package classify

import (
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

// chart is an input with a webhook on widgets, its backend and what else there is:
// WEBHOOK and METADATA stand in the webhook and in the metadata of its configuration.
//
//go:embed testdata/inputs/chart.yaml
var chart string

// rendered is the chart with replacements, and what follows it.
func rendered(more string, replace ...string) string {
	replace = append(replace, "NAMESPACE", "namespace: team", "METADATA", "labels: {}", "WEBHOOK", "failurePolicy: Fail", "DEPLOYMENT", "labels: {}")
	return strings.NewReplacer(replace...).Replace(chart) + "---\n" + more
}

func widget(annotations string) string {
	return "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: first, namespace: team, annotations: {" + annotations + "}}\n"
}

// conversion is a CRD that converts by the chart's backend, and converted is written in
// another version than it stores.
const (
	conversion = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.other.example.com}
spec:
  group: other.example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: team, name: policy}}}}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
  - {name: v1beta1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
`
	converted = "apiVersion: other.example.com/v1beta1\nkind: Widget\nmetadata: {name: first, namespace: team}\n"
)

// TestInstallOrder: with which installers an input works.
func TestInstallOrder(t *testing.T) {
	for name, test := range map[string]struct{ text, fails string }{
		// Argo CD goes by names.
		"after it":                    {rendered(widget("")), "Helm 3, Helm 4 and kubectl apply"},
		"before it in the file":       {widget("") + "---\n" + rendered(""), "Helm 3 and Helm 4"},
		"a hook of Helm":              {rendered(widget(`helm.sh/hook: post-install`)), "kubectl apply"},
		"a hook before it in a file":  {widget(`helm.sh/hook: post-install`) + "---\n" + rendered(""), ""},
		"a hook of Argo CD":           {rendered(widget(`argocd.argoproj.io/hook: Skip`)), "Helm 3, Helm 4 and kubectl apply"},
		"a wave":                      {rendered(strings.ReplaceAll(widget(`argocd.argoproj.io/sync-wave: "1"`), "first", "zebra")), "Helm 3, Helm 4 and kubectl apply"},
		"none":                        {rendered(strings.ReplaceAll(widget(""), "first", "zebra")), "Helm 3, Helm 4, kubectl apply and Argo CD"},
		"a configuration as a hook":   {rendered(widget(""), "METADATA", `annotations: {helm.sh/hook: test}`), "kubectl apply"},
		"a backend as a hook":         {rendered(widget(""), "DEPLOYMENT", `annotations: {helm.sh/hook: pre-install}`), "kubectl apply"},
		"the configuration in a wave": {rendered(widget(""), "METADATA", `annotations: {argocd.argoproj.io/sync-wave: "-1"}`), "Helm 3, Helm 4 and kubectl apply"},
		"no namespace stated":         {rendered("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: first}\n", "NAMESPACE", ""), "Helm 3, Helm 4 and kubectl apply"},
		"its namespace exempt":        {rendered(widget(""), "WEBHOOK", "namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [team]}]}"), ""},
		"nothing stated, and exempt":  {rendered("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: first}\n", "NAMESPACE", "", "WEBHOOK", "namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [team]}]}"), ""},
		// Labels of a namespace that no file holds may exempt it.
		"unless it is labeled":       {rendered(widget(""), "WEBHOOK", "namespaceSelector: {matchExpressions: [{key: exempt, operator: DoesNotExist}]}"), "Helm 3, Helm 4 and kubectl apply"},
		"only those that ask for it": {rendered(widget(""), "WEBHOOK", "namespaceSelector: {matchLabels: {audit: yes-please}}"), ""},
		"an open webhook":            {rendered(widget(""), "WEBHOOK", "failurePolicy: Ignore"), ""},
		"by a condition on the name": {rendered(widget(""), "WEBHOOK", `matchConditions: [{name: first, expression: "request.name != 'first'"}]`), ""},
		"of a cluster":               {rendered("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: first, namespace: team, uid: x, resourceVersion: \"1\"}\n", "METADATA", `uid: some-uid`), ""},
		"converted":                  {rendered(conversion + "---\n" + converted), "Helm 3, Helm 4, kubectl apply and Argo CD"},
		// Of kubectl the API server does not know the kind yet.
		"converted, before its CRD": {rendered(converted + "---\n" + conversion), "Helm 3, Helm 4 and Argo CD"},
		"no backend":                {strings.ReplaceAll(rendered(widget("")), "kind: Deployment", "kind: Other"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := manifest.Read([]string{"-"}, manifest.Options{Stdin: strings.NewReader(test.text)})
			for _, e := range o.Errors {
				t.Fatal(e)
			}
			f := findingOf(evaluate(t, DefaultPolicy(), o.Snapshot(taken)), installOrder)
			_, got, _ := strings.Cut(f.Message, "fails with ")
			expect.Equal(t, test.fails, got)
			maybe := strings.HasPrefix(name, "unless")
			if maybe != (f.Severity == Info) || got != "" && !strings.Contains(f.Message, "Widget") ||
				maybe != strings.Contains(f.Message, "may refuse") || maybe != strings.Contains(f.Message, "excludes team by labels that the input does not show") {
				t.Errorf("%s: %s", f.Severity, f.Message)
			}
		})
	}
}

// TestUninstallOrder: with which uninstallers what is refused, and what stays.
func TestUninstallOrder(t *testing.T) {
	const deletes, updates = "[widgets]", "operations: [CREATE]"
	gadget := strings.ReplaceAll(widget(""), "Widget", "Apple")
	finalized := "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: first, namespace: team, finalizers: [FINALIZER]}\n"
	for name, test := range map[string]struct{ text, want string }{
		"before the configuration":  {rendered(gadget, updates, "operations: [DELETE]", deletes, "[apples]"), "with Helm 3 Service team/policy goes first, and the deletion of Apple team/first is refused"},
		"after the configuration":   {rendered(widget(""), updates, "operations: [DELETE]"), ""},
		"a hook, which stays":       {rendered(strings.ReplaceAll(widget("helm.sh/hook: post-install"), "Widget", "Apple"), updates, "operations: [DELETE]", deletes, "[apples]"), ""},
		"an open webhook":           {rendered(gadget, updates, "operations: [DELETE]", deletes, "[apples]", "WEBHOOK", "failurePolicy: Ignore"), ""},
		"a backend that is a hook":  {rendered(gadget, updates, "operations: [DELETE]", deletes, "[apples]", "DEPLOYMENT", "annotations: {helm.sh/hook: pre-install}"), ""},
		"a finalizer":               {rendered(strings.ReplaceAll(finalized, "FINALIZER", "example.com/x"), updates, "operations: [UPDATE]"), "with Helm 3 and Helm 4 Deployment team/policy goes before Widget team/first, whose finalizers nothing removes then"},
		"one of Kubernetes":         {rendered(strings.ReplaceAll(finalized, "FINALIZER", "orphan"), updates, "operations: [UPDATE]"), ""},
		"updates are not looked at": {rendered(strings.ReplaceAll(finalized, "FINALIZER", "example.com/x")), ""},
		"its namespace is left out": {rendered(gadget, updates, "operations: [DELETE]", deletes, "[apples]", "WEBHOOK", "namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [team]}]}"), ""},
		"perhaps it is left out":    {rendered(gadget, updates, "operations: [DELETE]", deletes, "[apples]", "WEBHOOK", "namespaceSelector: {matchExpressions: [{key: exempt, operator: DoesNotExist}]}"), "with Helm 3 Service team/policy goes first, and the deletion of Apple team/first is refused, unless its namespaceSelector excludes team by labels that the input does not show"},
	} {
		t.Run(name, func(t *testing.T) {
			f := findingOf(evaluate(t, DefaultPolicy(), files(t, test.text)), uninstallOrder)
			_, got, _ := strings.Cut(f.Message, ": ")
			expect.Equal(t, test.want, got)
			if f.Severity > Info || strings.HasPrefix(name, "perhaps") != strings.Contains(f.Message, "unless") {
				t.Errorf("%s: %s", f.Severity, f.Message)
			}
		})
	}
}

// TestInstallOrderBound: an input that is too large to be compared is an error, as none of its
// webhooks may be silent.
func TestInstallOrderBound(t *testing.T) {
	for _, test := range []struct {
		widgets, webhooks int
		want              bool
	}{{500, 200, false}, {1500, 200, true}} {
		r := evaluate(t, DefaultPolicy(), installed(test.widgets, test.webhooks, "label"))
		named := slices.ContainsFunc(r.Errors, func(e inventory.Error) bool { return strings.Contains(e.Message, "are too many to be compared") })
		if named != test.want {
			t.Errorf("%d objects and %d webhooks: %v", test.widgets, test.webhooks, r.Errors)
		}
	}
}

// installed are so many widgets, and webhooks that ask each for a label of its own; the
// widgets carry those that start with the word.
func installed(widgets, webhooks int, word string) *inventory.Snapshot {
	var o inventory.Objects
	namespaces(0)(&o, 0)
	addNamespace(&o, "team", nil)
	addBackend(&o, "team", "policy")
	o.Manifests = []inventory.Manifest{{Version: "v1", Kind: "Pod", Key: inventory.Key{Namespace: "team", Name: "policy"}}}
	for i := range webhooks {
		w := hookOn("team", "policy", "example.com", "widgets")
		w.Name = fmt.Sprintf("hook-%05d.example.com", i)
		w.ObjectSelector = kubetest.Selector(fmt.Sprint("label-", i), metav1.LabelSelectorOpDoesNotExist)
		name := fmt.Sprintf("policy-%05d", i)
		o.Validating = append(o.Validating, kubetest.Validating(name, w))
		o.Manifests = append(o.Manifests, inventory.Manifest{Group: "admissionregistration.k8s.io", Version: "v1", Kind: inventory.KindValidating, Key: inventory.Key{Name: name}})
	}
	for i := range widgets {
		o.Manifests = append(o.Manifests, inventory.Manifest{
			Group: "example.com", Version: "v1", Kind: "Widget", Key: inventory.Key{Namespace: "team", Name: fmt.Sprintf("w-%05d", i)},
			Labels: map[string]string{fmt.Sprint(word, "-", i): "x"},
		})
	}
	return o.Snapshot(taken)
}

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
