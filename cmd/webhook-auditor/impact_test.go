package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
)

// TestPolicyImpact: TYPE/NAME of an admission policy prints its card in all formats, and
// a name that is unknown says which are.
func TestPolicyImpact(t *testing.T) {
	from := []string{"--from", "testdata/policies.yaml"}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"text":     {[]string{"validatingadmissionpolicy/limits"}, exitOK, "kubectl delete validatingadmissionpolicybinding/limits-shop"},
		"two args": {[]string{"mutatingadmissionpolicies", "labels"}, exitOK, "MutatingAdmissionPolicy labels"},
		"markdown": {[]string{"validatingadmissionpolicies.admissionregistration.k8s.io/limits", "-o", "markdown"}, exitOK, "kubectl delete validatingadmissionpolicybinding/limits-shop"},
		"json":     {[]string{"validatingadmissionpolicy/limits", "-o", "json"}, exitOK, `"paramKind": "v1 ConfigMap"`},
		"unknown":  {[]string{"validatingadmissionpolicy/limit"}, exitError, `no validatingadmissionpolicy "limit"; did you mean limits?`},
		"other":    {[]string{"mutatingadmissionpolicy/limits"}, exitError, `no mutatingadmissionpolicy "limits"`},
		"deleted":  {[]string{"--delete", "validatingadmissionpolicy/limits"}, exitUsage, "webhook-auditor impact validatingadmissionpolicy/limits says what a policy does"},
	} {
		t.Run(name, func(t *testing.T) {
			got := execute(t, "", append(append([]string{"impact"}, c.args...), from...)...)
			if got.code != c.code || !strings.Contains(got.out+got.err, c.want) {
				t.Errorf("exit code %d, no %q in:\n%s%s", got.code, c.want, got.out, got.err)
			}
			if name == "json" {
				var document struct{ Cards []map[string]any }
				if err := json.Unmarshal([]byte(got.out), &document); err != nil || len(document.Cards) != 1 || document.Cards[0]["webhook"] != nil {
					t.Errorf("%v: want a card without a webhook:\n%s", err, got.out)
				}
			}
		})
	}
}

// TestImpactOfAPIService: what stops without an aggregated API server.
func TestImpactOfAPIService(t *testing.T) {
	const of = "testdata/apiservice.yaml"
	for name, tc := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"the card":    {[]string{"apiservice/v1beta1.metrics.k8s.io"}, exitOK, []string{"Service kube-system/metrics-server", "kubectl delete apiservice v1beta1.metrics.k8s.io"}},
		"as kubectl":  {[]string{"apiservices", "v1beta1.metrics.k8s.io"}, exitOK, []string{"NamespaceDeletionDiscoveryFailure"}},
		"as JSON":     {[]string{"apiservice/v1beta1.metrics.k8s.io", "-o", "json"}, exitOK, []string{`"apiService": "v1beta1.metrics.k8s.io"`}},
		"a mistake":   {[]string{"apiservice/v1beta1.metric.k8s.io"}, exitError, []string{"did you mean v1beta1.metrics.k8s.io"}},
		"a built-in":  {[]string{"apiservice/v1.apps"}, exitError, []string{`no APIService of an aggregated API server "v1.apps"`}},
		"as Markdown": {[]string{"apiservice/v1beta1.metrics.k8s.io", "-o", "markdown"}, exitOK, []string{"kubectl delete apiservice v1beta1.metrics.k8s.io"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, "", append([]string{"impact", "--from", of}, tc.args...)...)
			if r.code != tc.code {
				t.Errorf("exit code %d, want %d: %s", r.code, tc.code, r.err)
			}
			expect.Contains(t, squeezed(r.out+r.err), tc.want...)
		})
	}
}
