package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

const impactCluster = "../../pkg/classify/impact/testdata/cluster.yaml"

// ran runs the program and returns what it prints, and its exit code.
func ran(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs strings.Builder
	code = exit(run(t.Context(), args, streams{in: strings.NewReader(""), out: &out, err: &errs}), &errs)
	return out.String(), errs.String(), code
}

// TestImpactCommand: what it prints where, and its exit codes.
func TestImpactCommand(t *testing.T) {
	from := []string{"--from", impactCluster}
	for name, c := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"card":                   {[]string{"policy"}, exitOK, "kubectl delete validatingwebhookconfiguration policy", ""},
		"card of a webhook":      {[]string{"policy/pods.policy.example.com", "-o", "markdown"}, exitOK, "### API Extensions\n\n- **Which", ""},
		"card as JSON":           {[]string{"inject", "-o", "json"}, exitOK, `"id": "failure-modes"`, ""},
		"down":                   {[]string{"--down", "policy/policy"}, exitFindings, "Not without help", ""},
		"down, never failing":    {[]string{"--down", "policy/policy", "--fail-on", "never"}, exitOK, "requests to 1 webhook are refused", ""},
		"a node that may go":     {[]string{"--down-node", "b"}, exitOK, "requests pass without 1 webhook", ""},
		"deleted":                {[]string{"--delete", "policy", "-o", "markdown"}, exitOK, "Requests that pass unchecked", ""},
		"unknown configuration":  {[]string{"polcy"}, exitError, "", "did you mean policy"},
		"unknown webhook":        {[]string{"policy/pods.policy.example.co"}, exitError, "", "did you mean policy/pods.policy.example.com?"},
		"unknown Service":        {[]string{"--down", "policy/polcy"}, exitError, "", "did you mean policy/policy?"},
		"unknown node":           {[]string{"--down-node", "c"}, exitError, "", "did you mean a, b?"},
		"unknown deletion":       {[]string{"--delete", "injct"}, exitError, "", "did you mean inject?"},
		"no question":            {nil, exitUsage, "", "must be given CONFIGURATION"},
		"two questions":          {[]string{"policy", "--delete", "inject"}, exitUsage, "", "without CONFIGURATION"},
		"no namespace":           {[]string{"--down", "policy"}, exitUsage, "", "must be NAMESPACE/SERVICE"},
		"a file to scrape":       {[]string{"policy", "--observe=apiserver"}, exitUsage, "", "must be given without files"},
		"observed without one":   {[]string{"policy", "--observe-for", "5m"}, exitUsage, "", "--observe-for: must be given with"},
		"no URL":                 {[]string{"policy", "--prometheus-url", "prometheus:9090"}, exitUsage, "", "--prometheus-url: must be"},
		"a token in the clear":   {[]string{"policy", "--prometheus-url", "http://prometheus.example.com", "--prometheus-token-file", "x"}, exitUsage, "", "in the clear"},
		"no matcher":             {[]string{"policy", "--prometheus-url", "http://prometheus.example.com", "--prometheus-selector", `a="b"} or x{`}, exitUsage, "", "--prometheus-selector: must be"},
		"too short a range":      {[]string{"policy", "--prometheus-url", "http://prometheus.example.com", "--observe-for", "5s"}, exitUsage, "", "--observe-for: must be from 1m"},
		"a source of what is no": {[]string{"policy", "--observe=kubelet"}, exitUsage, "", "--observe: must be one of off, apiserver"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := ran(t, append(append([]string{"impact"}, c.args...), from...)...)
			if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
				t.Errorf("exit code %d, want %d; stdout, want %q:\n%s\nstderr, want %q:\n%s", code, c.code, c.stdout, stdout, c.stderr, stderr)
			}
		})
	}
}

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
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: %q}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n", api.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
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
	stdout, stderr, code := ran(t, "top", "--kubeconfig", kubeconfig, "--observe-for", "1s", "-o", "json")
	var top report.Top
	if err := json.Unmarshal([]byte(stdout), &top); err != nil {
		t.Fatalf("%v in %s, %s", err, stdout, stderr)
	}
	if len(top.Webhooks) != 1 || top.Webhooks[0].Name != "ghost" || int(top.Webhooks[0].Observed.Calls)%3 != 0 || len(top.Webhooks[0].Configurations) != 0 {
		t.Errorf("exit code %d, got %+v", code, top.Webhooks)
	}
	if rate := top.Webhooks[0].Observed.Calls / top.Observation.Servers[0].Seconds; top.Webhooks[0].Observed.CallsPerSecond != rate {
		t.Errorf("%g calls a second, want %g", top.Webhooks[0].Observed.CallsPerSecond, rate)
	}
	stdout, _, _ = ran(t, "top", "--kubeconfig", kubeconfig, "--observe-for", "1s")
	if !strings.Contains(stdout, "(not registered)") || !strings.Contains(stdout, "Observed by API server 127.0.0.1") {
		t.Errorf("stdout:\n%s", stdout)
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
	stdout, stderr, code := ran(t, "audit", "--kubeconfig", kubeconfig, "--observe=apiserver", "--observe-for", "10m")
	if code != exitError || !strings.Contains(stderr, "nonResourceURL /metrics") || !strings.Contains(stdout, "No webhooks found.") {
		t.Errorf("exit code %d after %s\nstdout:\n%s\nstderr:\n%s", code, time.Since(start), stdout, stderr)
	}
}

// TestBadPrometheusIsNamed: the report is there, and says what is missing.
func TestBadPrometheusIsNamed(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"HTML":         func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html></html>") },
		"unauthorized": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(answer)
			defer server.Close()
			stdout, stderr, code := ran(t, "audit", impactCluster, "--prometheus-url", server.URL, "--fail-on", "never")
			if code != exitError || !strings.Contains(stderr, "Prometheus "+server.URL) || !strings.Contains(stdout, "bootstrap-deadlock") {
				t.Errorf("exit code %d\nstdout:\n%s\nstderr:\n%s", code, stdout, stderr)
			}
		})
	}
}
