package cluster

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster/client"
)

const (
	aggregatedCore = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{},"versions":[{"version":"v1","freshness":"Current","resources":[
		{"resource":"pods","responseKind":{"group":"","version":"v1","kind":"Pod"},"scope":"Namespaced","verbs":["create","get"],"subresources":[
			{"subresource":"exec","responseKind":{"group":"","version":"v1","kind":"PodExecOptions"},"verbs":["create"]},
			{"subresource":"unknown","verbs":["get"]}]},
		{"resource":"nodes","responseKind":{"group":"","version":"v1","kind":"Node"},"scope":"Cluster","verbs":["get"]},
		{"resource":"parents","responseKind":{},"scope":"Namespaced","verbs":[],"subresources":[
			{"subresource":"children","responseKind":{"group":"","version":"v1","kind":"Child"},"verbs":["get"]}]}]}]}]}`
	aggregatedGroups = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[
		{"metadata":{"name":"apps"},"versions":[
			{"version":"v1","freshness":"Current","resources":[{"resource":"deployments","responseKind":{"group":"apps","version":"v1","kind":"Deployment"},"scope":"Namespaced","verbs":["get"]}]},
			{"version":"v1beta1","resources":[{"resource":"deployments","responseKind":{"group":"apps","version":"v1beta1","kind":"Deployment"},"scope":"Namespaced","verbs":["get"]}]}]},
		{"metadata":{"name":"metrics.k8s.io"},"versions":[{"version":"v1","freshness":"Stale"}]},
		{"metadata":{"name":"config.openshift.io"},"versions":[]}]}`
	aggregatedType = "application/json; as=APIGroupDiscoveryList; v=v2; g=apidiscovery.k8s.io; charset=utf-8"
)

// unaggregated are the documents of a server that does not aggregate; that of metrics.k8s.io is missing.
var unaggregated = map[string]string{
	"/api":          `{"kind":"APIVersions","versions":["v1"]}`,
	"/api/v1":       `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","namespaced":true,"kind":"Pod","verbs":["create","get"]},{"name":"pods/exec","namespaced":true,"kind":"PodExecOptions","verbs":["create"]},{"name":"nodes","namespaced":false,"kind":"Node","verbs":["get"]}]}`,
	"/apis":         `{"kind":"APIGroupList","groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}]},{"name":"metrics.k8s.io","versions":[{"groupVersion":"metrics.k8s.io/v1","version":"v1"}]}]}`,
	"/apis/apps/v1": `{"kind":"APIResourceList","groupVersion":"apps/v1","resources":[{"name":"deployments","namespaced":true,"kind":"Deployment","verbs":["get"]}]}`,
}

// TestDiscoverIsThatOfClientGo compares what both say of the same documents.
func TestDiscoverIsThatOfClientGo(t *testing.T) {
	for name, documents := range map[string]map[string]string{
		"aggregated":                {"/api": aggregatedCore, "/apis": aggregatedGroups},
		"aggregated, no core group": {"/apis": aggregatedGroups},
		"unaggregated":              unaggregated,
	} {
		t.Run(name, func(t *testing.T) {
			config := &rest.Config{Host: serveDocuments(t, documents), QPS: -1}
			group := must.Get(client.Group(config, nil, corev1.SchemeGroupVersion))(t)
			got := must.Get(discover(t.Context(), group))(t)
			want, failed := clientGo(t, config)
			if diff := cmp.Diff(want, got.served); diff != "" {
				t.Errorf("served (-client-go +got):\n%s", diff)
			}
			if diff := cmp.Diff(failed, texts(got.failed)); diff != "" {
				t.Errorf("failed (-client-go +got):\n%s", diff)
			}
		})
	}
}

func serveDocuments(t *testing.T, documents map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		document, ok := documents[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(document, "APIGroupDiscoveryList") {
			w.Header().Set("Content-Type", aggregatedType)
		}
		_, _ = w.Write([]byte(document))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// clientGo returns what client-go's discovery says is served, and what fails.
func clientGo(t *testing.T, config *rest.Config) ([]inventory.Served, map[string]string) {
	t.Helper()
	client := must.Get(discovery.NewDiscoveryClientForConfig(config))(t)
	_, lists, err := client.ServerGroupsAndResourcesWithContext(t.Context())
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partial {
		t.Fatal(err)
	}
	out := discovered{}
	for _, list := range lists {
		gv := must.Get(schema.ParseGroupVersion(list.GroupVersion))(t)
		out.addList(gv, list.APIResources)
	}
	return out.sorted(), texts(failed)
}

func texts(failed map[schema.GroupVersion]error) map[string]string {
	out := map[string]string{}
	for gv, err := range failed {
		out[gv.String()] = err.Error()
	}
	return out
}

func TestDiscoverOfAnotherServer(t *testing.T) {
	for name, documents := range map[string]map[string]string{
		"nothing": {},
		"a page":  {"/api": "<html>", "/apis": "<html>"},
	} {
		group := must.Get(client.Group(&rest.Config{Host: serveDocuments(t, documents)}, nil, corev1.SchemeGroupVersion))(t)
		if _, err := discover(t.Context(), group); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
