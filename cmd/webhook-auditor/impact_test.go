package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestPolicyImpact: TYPE/NAME of an admission policy prints its card in all formats, and
// a name that is not known says which are.
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
