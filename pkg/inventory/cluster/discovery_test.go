package cluster

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
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
)

// TestDiscoverIsThatOfClientGo compares what both say of the same documents.
func TestDiscoverIsThatOfClientGo(t *testing.T) {
	for name, documents := range map[string]map[string]string{
		"aggregated":                {"/api": aggregatedCore, "/apis": aggregatedGroups},
		"aggregated, no core group": {"/apis": aggregatedGroups},
	} {
		t.Run(name, func(t *testing.T) {
			config := &rest.Config{Host: serveDocuments(t, documents), QPS: -1}
			group := must.Get(client.Group(config, nil, corev1.SchemeGroupVersion))(t)
			got := must.Get(discover(t.Context(), group))(t)
			want, failed := clientGo(t, config)
			expect.Equal(t, want, got.served)          // as client-go has them
			expect.Equal(t, failed, texts(got.failed)) // as client-go has them
		})
	}
}

// TestDiscoverBefore130: API servers from 1.27 to 1.29 have the same documents, of another
// version.
func TestDiscoverBefore130(t *testing.T) {
	older := map[string]string{"/api": strings.ReplaceAll(aggregatedCore, "v2", "v2beta1"), "/apis": strings.ReplaceAll(aggregatedGroups, "v2", "v2beta1")}
	group := must.Get(client.Group(&rest.Config{Host: serveDocuments(t, older)}, nil, corev1.SchemeGroupVersion))(t)
	if got := must.Get(discover(t.Context(), group))(t); len(got.served) != 6 || len(got.failed) != 1 {
		t.Errorf("served %v, failed %v", got.served, got.failed)
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
			version := "v2"
			if strings.Contains(document, "v2beta1") {
				version = "v2beta1"
			}
			w.Header().Set("Content-Type", "application/json; as=APIGroupDiscoveryList; v="+version+"; g=apidiscovery.k8s.io; charset=utf-8")
		}
		_, _ = w.Write([]byte(document))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// clientGo returns what client-go's discovery says is served, and what fails.
func clientGo(t *testing.T, config *rest.Config) ([]inventory.Served, map[string]string) {
	t.Helper()
	upstream := must.Get(discovery.NewDiscoveryClientForConfig(config))(t)
	_, lists, err := upstream.ServerGroupsAndResourcesWithContext(t.Context())
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partial {
		t.Fatal(err)
	}
	out := discovered{}
	for _, list := range lists {
		gv := must.Get(schema.ParseGroupVersion(list.GroupVersion))(t)
		for _, r := range list.APIResources {
			name, sub, _ := strings.Cut(r.Name, "/")
			resource := inventory.Resource{Group: gv.Group, Name: name, Subresource: sub}
			out.served = append(out.served, inventory.Served{Resource: resource, Version: gv.Version, Kind: r.Kind, Namespaced: r.Namespaced, Verbs: r.Verbs})
		}
	}
	slices.SortFunc(out.served, inventory.CompareServed)
	return out.served, texts(failed)
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
		"1.26":    {"/api": `{"kind":"APIVersions","versions":["v1"]}`, "/apis": `{"kind":"APIGroupList","groups":[]}`},
	} {
		group := must.Get(client.Group(&rest.Config{Host: serveDocuments(t, documents)}, nil, corev1.SchemeGroupVersion))(t)
		if _, err := discover(t.Context(), group); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
