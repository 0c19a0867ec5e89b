package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// TestLastContext: the last --context counts, as with kubectl.
func TestLastContext(t *testing.T) {
	kubeconfig := fakeCluster(t)
	got := execute(t, "", "explain", "--kubeconfig", kubeconfig, "--context", "nowhere", "--context", "here", "create", "pods")
	if strings.Contains(got.err, "nowhere") {
		t.Errorf("exit code %d, %s", got.code, got.err)
	}
}

// named are objects of names.
func named(names ...string) metav1.PartialObjectMetadataList {
	var list metav1.PartialObjectMetadataList
	for _, name := range names {
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	list.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList"))
	return list
}

// fakeCluster serves a small cluster; it returns a kubeconfig.
func fakeCluster(t *testing.T) string {
	t.Helper()
	widgets := metav1.GroupVersionForDiscovery{GroupVersion: "example.com/v1", Version: "v1"}
	answers := map[string]any{
		"/api":  metav1.APIVersions{Versions: []string{"v1"}},
		"/apis": metav1.APIGroupList{Groups: []metav1.APIGroup{{Name: "example.com", Versions: []metav1.GroupVersionForDiscovery{widgets}, PreferredVersion: widgets}}},
		"/api/v1": metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: []string{"create", "list"}},
			{Name: "pods/exec", Kind: "PodExecOptions", Namespaced: true, Verbs: []string{"create", "get"}},
			{Name: "componentstatuses", Kind: "ComponentStatus", Verbs: []string{"get", "list"}},
		}},
		"/apis/example.com/v1": metav1.APIResourceList{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{
			{Name: "widgets", Kind: "Widget", Namespaced: true, Verbs: []string{"create", "list"}},
		}},
		"/api/v1/namespaces": named("shop", "staging", "default"),
		"/api/v1/nodes":      named("worker-1", "worker-2"),
		"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies": named("limits"),
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions":           named("widgets.example.com", "gadgets.example.com"),
		"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": admissionv1.ValidatingWebhookConfigurationList{
			Items: []admissionv1.ValidatingWebhookConfiguration{*kubetest.Validating("policy", admissionv1.ValidatingWebhook{Name: "images.policy.example.com"})},
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		writeJSON(w, answer)
	}))
	t.Cleanup(server.Close)
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: %q}}]\n"+
		"contexts: [{name: here, context: {cluster: a}}, {name: there, context: {cluster: a}}]\ncurrent-context: here\n", server.URL)
	return must.File(t, "kubeconfig", text)
}
