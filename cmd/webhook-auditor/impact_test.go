package main

import (
	"slices"
	"strings"
	"testing"
)

const impactCluster = "../../pkg/classify/impact/testdata/cluster.yaml"

// TestImpactCommand: what it prints where, and its exit codes.
func TestImpactCommand(t *testing.T) {
	policies, servers := []string{"--from", "testdata/policies.yaml"}, []string{"--from", "testdata/apiservice.yaml"}
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
		"a policy":               {append(policies, "validatingadmissionpolicy/limits"), exitOK, "kubectl delete validatingadmissionpolicybinding/limits-shop", ""},
		"policy of TYPE NAME":    {append(policies, "mutatingadmissionpolicies", "labels"), exitOK, "MutatingAdmissionPolicy labels", ""},
		"policy in Markdown":     {append(policies, "validatingadmissionpolicies.admissionregistration.k8s.io/limits", "-o", "markdown"), exitOK, "kubectl delete validatingadmissionpolicybinding/limits-shop", ""},
		"policy as JSON":         {append(policies, "validatingadmissionpolicy/limits", "-o", "json"), exitOK, `"paramKind": "v1 ConfigMap"`, ""},
		"unknown policy":         {append(policies, "validatingadmissionpolicy/limit"), exitError, "", `no validatingadmissionpolicy "limit"; did you mean limits?`},
		"policy, another type":   {append(policies, "mutatingadmissionpolicy/limits"), exitError, "", `no mutatingadmissionpolicy "limits"`},
		"deletion of a policy":   {append(policies, "--delete", "validatingadmissionpolicy/limits"), exitUsage, "", "webhook-auditor impact validatingadmissionpolicy/limits says what a policy does"},
		"an APIService":          {append(servers, "apiservice/v1beta1.metrics.k8s.io"), exitOK, "kubectl delete apiservice v1beta1.metrics.k8s.io", ""},
		"its Service":            {append(servers, "apiservices", "v1beta1.metrics.k8s.io"), exitOK, "Service kube-system/metrics-server", ""},
		"APIService as JSON":     {append(servers, "apiservice/v1beta1.metrics.k8s.io", "-o", "json"), exitOK, `"apiService": "v1beta1.metrics.k8s.io"`, ""},
		"unknown APIService":     {append(servers, "apiservice/v1beta1.metric.k8s.io"), exitError, "", "did you mean v1beta1.metrics.k8s.io"},
		"built-in APIService":    {append(servers, "apiservice/v1.apps"), exitError, "", `no APIService of an aggregated API server "v1.apps"`},
		"APIService in Markdown": {append(servers, "apiservice/v1beta1.metrics.k8s.io", "-o", "markdown"), exitOK, "kubectl delete apiservice v1beta1.metrics.k8s.io", ""},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"impact"}, c.args...)
			if !slices.Contains(args, "--from") {
				args = append(args, "--from", impactCluster)
			}
			got := execute(t, "", args...)
			if got.code != c.code || !strings.Contains(got.out, c.stdout) || !strings.Contains(got.err, c.stderr) {
				t.Errorf("exit code %d, want %d; stdout, want %q:\n%s\nstderr, want %q:\n%s", got.code, c.code, c.stdout, got.out, c.stderr, got.err)
			}
		})
	}
}
