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

const impactCluster = "../../pkg/classify/impact/testdata/cluster.yaml"

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
		"card of TYPE/NAME":      {[]string{"validatingwebhookconfiguration/policy"}, exitOK, "kubectl delete validatingwebhookconfiguration policy", ""},
		"card of TYPE NAME":      {[]string{"validatingwebhookconfigurations", "policy"}, exitOK, "kubectl delete validatingwebhookconfiguration policy", ""},
		"card of another type":   {[]string{"crd/policy"}, exitError, "", `no webhook, configuration or policy "policy"; did you mean policy`},
		"deleted by type":        {[]string{"--delete", "validatingwebhookconfiguration/policy"}, exitOK, "With configuration validatingwebhookconfiguration/policy deleted", ""},
		"deletion, another type": {[]string{"--delete", "mutatingwebhookconfiguration/policy"}, exitError, "", `no mutating webhook configuration "policy"`},
		"deletion of a CRD":      {[]string{"--delete", "crd/policy"}, exitUsage, "", "--delete: must be a webhook configuration"},
		"unknown node":           {[]string{"--down-node", "c"}, exitError, "", "did you mean a, b?"},
		"unknown deletion":       {[]string{"--delete", "injct"}, exitError, "", "did you mean inject?"},
		"no question":            {nil, exitUsage, "", "must be given CONFIGURATION"},
		"two questions":          {[]string{"policy", "--delete", "inject"}, exitUsage, "", "without CONFIGURATION"},
		"a Service with -n":      {[]string{"--down", "policy", "-n", "policy"}, exitFindings, "With Service policy/policy down", ""},
		"no namespace":           {[]string{"--down", "policy"}, exitUsage, "", "must be NAMESPACE/SERVICE"},
		"a file to scrape":       {[]string{"policy", "--observe=apiserver"}, exitUsage, "", "must be given without files"},
		"observed without one":   {[]string{"policy", "--observe-for", "5m"}, exitUsage, "", "--observe-for: must be given with"},
		"no URL":                 {[]string{"policy", "--prometheus-url", "prometheus:9090"}, exitUsage, "", "--prometheus-url: must be"},
		"a token in the clear":   {[]string{"policy", "--prometheus-url", "http://prometheus.example.com", "--prometheus-token-file", "x"}, exitUsage, "", "in the clear"},
		"no matcher":             {[]string{"policy", "--prometheus-url", "http://prometheus.example.com", "--prometheus-selector", `a="b"} or x{`}, exitUsage, "", "--prometheus-selector: must be"},
		"too short a range":      {[]string{"policy", "--prometheus-url", "http://prometheus.example.com", "--observe-for", "5s"}, exitUsage, "", "--observe-for: must be from 1m"},
		"a source of what is no": {[]string{"policy", "--observe=kubelet"}, exitUsage, "", "\"--observe\" flag: must be one of off, apiserver"},
	} {
		t.Run(name, func(t *testing.T) {
			got := execute(t, "", append(append([]string{"impact"}, c.args...), from...)...)
			if got.code != c.code || !strings.Contains(got.out, c.stdout) || !strings.Contains(got.err, c.stderr) {
				t.Errorf("exit code %d, want %d; stdout, want %q:\n%s\nstderr, want %q:\n%s", got.code, c.code, c.stdout, got.out, c.stderr, got.err)
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
