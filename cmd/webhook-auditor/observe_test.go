package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// scrapedCluster is a cluster of one API server without webhooks, whose counter
// of calls to a webhook grows by 3 between scrapes.
func scrapedCluster(t *testing.T, metrics http.HandlerFunc) (kubeconfig string) {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/metrics":
			metrics(w, r)
		case r.URL.Path == "/version":
			writeJSON(w, map[string]string{"major": "1", "minor": "37", "gitVersion": "v1.37.1"})
		case r.URL.Path == "/api":
			writeJSON(w, map[string]any{"kind": "APIVersions", "versions": []string{"v1"}})
		case r.URL.Path == "/apis":
			writeJSON(w, map[string]any{"kind": "APIGroupList", "groups": []string{}})
		case r.URL.Path == "/api/v1":
			writeJSON(w, map[string]any{"kind": "APIResourceList", "groupVersion": "v1", "resources": []string{}})
		default:
			writeJSON(w, map[string]any{"kind": "List", "apiVersion": "v1", "metadata": map[string]string{"resourceVersion": "1"}, "items": []string{}})
		}
	}))
	t.Cleanup(api.Close)
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: %q}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n", api.URL)
	return must.File(t, "kubeconfig", text)
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

// counting serves a counter that grows by 3 with each scrape, be it for a report
// or, of its feature gates, for the inventory.
func counting() http.HandlerFunc {
	n := 0
	return func(w http.ResponseWriter, _ *http.Request) {
		n += 3
		fmt.Fprintf(w, "# TYPE apiserver_admission_webhook_request_total counter\napiserver_admission_webhook_request_total{name=\"ghost\",type=\"admit\"} %d\n", n)
	}
}

// TestTopCommand: a webhook that is called and that nothing registers is shown.
func TestTopCommand(t *testing.T) {
	kubeconfig := scrapedCluster(t, counting())
	got := execute(t, "", "top", "--kubeconfig", kubeconfig, "--observe-for", "1s", "-o", "json")
	var top report.Top
	if err := json.Unmarshal([]byte(got.out), &top); err != nil {
		t.Fatalf("%v in %s, %s", err, got.out, got.err)
	}
	if len(top.Webhooks) != 1 || top.Webhooks[0].Name != "ghost" || int(top.Webhooks[0].Observed.Calls)%3 != 0 || len(top.Webhooks[0].Configurations) != 0 {
		t.Errorf("exit code %d, got %+v", got.code, top.Webhooks)
	}
	if rate := top.Webhooks[0].Observed.Calls / top.Observation.Servers[0].To.Sub(top.Observation.Servers[0].From).Seconds(); top.Webhooks[0].Observed.CallsPerSecond != rate {
		t.Errorf("%g calls a second, want %g", top.Webhooks[0].Observed.CallsPerSecond, rate)
	}
	got = execute(t, "", "top", "--kubeconfig", kubeconfig, "--observe-for", "1s")
	if !strings.Contains(got.out, "(not registered)") || !strings.Contains(got.out, "Observed by API server 127.0.0.1") {
		t.Errorf("stdout:\n%s", got.out)
	}
}

// TestServiceAccount: a Pod uses its own credentials for Services by HTTPS alone,
// and only where the user names none.
func TestServiceAccount(t *testing.T) {
	dir := t.TempDir()
	token, ca := filepath.Join(dir, "token"), filepath.Join(dir, "service-ca.crt")
	for _, file := range []string{token, ca} {
		must.Write(t, file, "x")
	}
	for name, c := range map[string]struct {
		url, dir, token         string
		wantedToken, wantedFile string
	}{
		"a Service":                {"https://prometheus-k8s.openshift-monitoring.svc:9091", dir, "", token, ca},
		"its long name":            {"https://prometheus.monitoring.svc.cluster.local", dir, "", token, ca},
		"a Service, its own token": {"https://prometheus.monitoring.svc", dir, "mine", "mine", ca},
		"in the clear":             {"http://prometheus.monitoring.svc:9090", dir, "", "", ""},
		"outside of the cluster":   {"https://prometheus.example.com", dir, "", "", ""},
		"a name that ends alike":   {"https://svc.example.com/x.svc", dir, "", "", ""},
		"a Pod without a token":    {"https://prometheus.monitoring.svc", t.TempDir(), "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			u := must.Get(url.Parse(c.url))(t)
			o := observeFlags{}
			o.prometheus.TokenFile = c.token
			o.serviceAccount(u, c.dir)
			if o.prometheus.TokenFile != c.wantedToken || o.prometheus.CAFile != c.wantedFile {
				t.Errorf("token of %q, CAs of %q, want %q and %q", o.prometheus.TokenFile, o.prometheus.CAFile, c.wantedToken, c.wantedFile)
			}
		})
	}
}

// TestForbiddenMetrics: an API server that forbids /metrics is named; the rest
// of the report is there.
func TestForbiddenMetrics(t *testing.T) {
	kubeconfig := scrapedCluster(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"forbidden: User \"x\" cannot get path \"/metrics\""}`)
	})
	start := time.Now()
	got := execute(t, "", "audit", "--kubeconfig", kubeconfig, "--observe=apiserver", "--observe-for", "10m")
	if got.code != exitError || !strings.Contains(got.err, "nonResourceURL /metrics") || !strings.Contains(got.out, "· no webhooks ·") {
		t.Errorf("exit code %d after %s\nstdout:\n%s\nstderr:\n%s", got.code, time.Since(start), got.out, got.err)
	}
}

// TestBadPrometheusIsNamed: the report is there, and says what is missing.
func TestBadPrometheusIsNamed(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"HTML":         func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html></html>") },
		"unauthorized": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"NaN": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"name":"a","type":"admit","le":"1"},"value":[1,"NaN"]}]}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(answer)
			defer server.Close()
			got := execute(t, "", "audit", impactCluster, "--prometheus-url", server.URL, "--fail-on", "never")
			if got.code != exitError || !strings.Contains(got.err, "Prometheus "+server.URL) || !strings.Contains(got.out, "bootstrap-deadlock") {
				t.Errorf("exit code %d\nstdout:\n%s\nstderr:\n%s", got.code, got.out, got.err)
			}
		})
	}
}
