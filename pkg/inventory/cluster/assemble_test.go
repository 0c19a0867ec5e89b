package cluster

import (
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

func TestReferences(t *testing.T) {
	url, port := "https://x.policy.svc/", int32(8443)
	otherPort := throughAPIServer("v1", "hive.example.com")
	otherPort.Service.Port = &port
	local := apiService("v1", "local.example.com", "", "")
	local.Spec.Service = nil
	o := inventory.Objects{
		Validating: []*admissionv1.ValidatingWebhookConfiguration{
			validating("one", kubetest.Client("a", "a"), kubetest.Client("a", "a"), admissionv1.WebhookClientConfig{URL: &url}),
			validating("aggregated", throughAPIServer("v1", "hive.example.com"), throughAPIServer("v1", "local.example.com"), throughAPIServer("v9", "unknown.example.com")),
		},
		Mutating:    []*admissionv1.MutatingWebhookConfiguration{mutating("two", kubetest.Client("b", "b"))},
		CRDs:        []*apiextensionsv1.CustomResourceDefinition{convertedCRD("things", "c", "c")},
		APIServices: []*apiregistrationv1.APIService{apiService("v1", "hive.example.com", "hive", "hive"), apiService("v1", "idle.example.com", "idle", "idle"), local},
	}
	keys := func() []string {
		var out []string
		for key := range calledServices(o.Snapshot(minuteTime(0))) {
			out = append(out, key.String())
		}
		slices.Sort(out)
		return out
	}
	expect.Equal(t, []string{"a/a", "b/b", "c/c", "hive/hive"}, keys())
	o.Validating = append(o.Validating, validating("port", otherPort))
	expect.Equal(t, []string{"a/a", "b/b", "c/c", "default/kubernetes", "hive/hive"}, keys())
}

// TestWatchedKindsAreKept: Objects have a list of each kind that is watched.
func TestWatchedKindsAreKept(t *testing.T) {
	for _, r := range must.Get(NewClients(&rest.Config{Host: "http://127.0.0.1:1"}))(t).watchedResources() {
		new(inventory.Objects).Add(unpacked(packed(r.example)))
	}
}
