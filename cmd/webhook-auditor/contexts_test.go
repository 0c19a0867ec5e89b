package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// TestSeveralContexts: one report of two clusters and of one that does not exist.
func TestSeveralContexts(t *testing.T) {
	kubeconfig := fakeCluster(t)
	flags := []string{"audit", "--kubeconfig", kubeconfig, "--context", "here", "--context", "nowhere", "--context", "there", "--fail-on", "never"}
	t.Run("JSON", func(t *testing.T) {
		got := execute(t, "", append(flags, "-o", "json")...)
		var d report.Document
		if err := json.Unmarshal([]byte(got.out), &d); err != nil || got.code != exitError {
			t.Fatalf("exit code %d, %v: %s", got.code, err, got.err)
		}
		counts := map[string]int{}
		for _, w := range d.Webhooks {
			counts[w.Context]++
		}
		if len(counts) != 2 || counts["here"] != counts["there"] || counts["here"] == 0 || d.Totals.Webhooks != len(d.Webhooks) {
			t.Errorf("webhooks by context are %v, %d in all", counts, d.Totals.Webhooks)
		}
		if !strings.Contains(got.err, "context nowhere: ") {
			t.Errorf("stderr lacks the context that does not exist:\n%s", got.err)
		}
	})
	t.Run("a webhook of all", func(t *testing.T) {
		got := execute(t, "", append(flags, "-o", "json", "validatingwebhookconfiguration/policy")...)
		if strings.Contains(got.out, "widgets.example.com") || strings.Count(got.out, `"context": "here"`) == 0 {
			t.Errorf("the report is\n%s", got.out)
		}
	})
	t.Run("table", func(t *testing.T) {
		got := execute(t, "", flags...)
		_, clusters, _ := strings.Cut(got.out, "\n\nCONTEXT ")
		lines := strings.Split(clusters, "\n")
		if len(lines) != 5 || strings.Join(strings.Fields(lines[1]), " ") != "nowhere not read - - - - 1" || !strings.HasPrefix(lines[2], "here ") {
			t.Errorf("the table by cluster is\n%s", got.out)
		}
	})
	for _, wrong := range []string{"--baseline=x", "-o=sarif", "-o=html", "--observe=apiserver", "manifests"} {
		if got := execute(t, "", append(flags, wrong)...); got.code != exitUsage || !strings.Contains(got.err, "--context: must be given") {
			t.Errorf("%s: exit code %d, %s", wrong, got.code, got.err)
		}
	}
}

// TestContextNames: names with commas are as several flags.
func TestContextNames(t *testing.T) {
	kubeconfig := fakeCluster(t)
	for _, test := range []struct {
		flags []string
		want  []string
	}{
		{[]string{"--context=here,there"}, []string{"here", "there"}},
		{[]string{"--context=here,there", "--context=here"}, []string{"here", "there"}},
	} {
		got := execute(t, "", append([]string{"audit", "--kubeconfig", kubeconfig, "-o=json", "--fail-on=never"}, test.flags...)...)
		var d report.Document
		if err := json.Unmarshal([]byte(got.out), &d); err != nil {
			t.Fatalf("%v: %v: %s", test.flags, err, got.err)
		}
		var names []string
		for _, c := range d.Contexts {
			names = append(names, c.Context)
		}
		if !slices.Equal(names, test.want) {
			t.Errorf("%v reads %v, want %v", test.flags, names, test.want)
		}
	}
	if got := execute(t, "", "audit", "--kubeconfig", kubeconfig, "--context=here,"); got.code != exitUsage || !strings.Contains(got.err, "must be names, with a comma between two") {
		t.Errorf("a name that is empty: exit code %d, %s", got.code, got.err)
	}
}

// TestLastContextOfOneCluster: a command that reads one cluster takes the last
// --context, as kubectl does.
func TestLastContextOfOneCluster(t *testing.T) {
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
