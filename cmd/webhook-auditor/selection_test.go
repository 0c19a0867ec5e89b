package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// TestSelection: TYPE/NAME and -n narrow the report, its totals and its exit code.
func TestSelection(t *testing.T) {
	const file = "testdata/webhooks.yaml"
	const other = "testdata/reviews.yaml"
	elsewhere := fixtures + "core-resource.yaml"
	for name, tc := range map[string]struct {
		args     []string
		webhooks []string
		code     int
	}{
		"a configuration":     {[]string{file, other, "validatingwebhookconfiguration/policy"}, []string{"images.policy.example.com"}, exitOK},
		"its webhook":         {[]string{file, "validatingwebhookconfigurations.admissionregistration.k8s.io/policy/images.policy.example.com"}, []string{"images.policy.example.com"}, exitOK},
		"a namespace":         {[]string{file, elsewhere, "-n", "policy"}, []string{"images.policy.example.com"}, exitOK},
		"another namespace":   {[]string{file, "-n", "nowhere"}, []string{}, exitOK},
		"a file of that name": {[]string{file, "./crd/x"}, nil, exitError},
		"no such webhook":     {[]string{file, "validatingwebhookconfiguration/policy/other"}, nil, exitUsage},
		"another type":        {[]string{file, "mutatingwebhookconfiguration/policy"}, nil, exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, "", append([]string{"audit", "-o", "json"}, tc.args...)...)
			if r.code != tc.code {
				t.Fatalf("exit code %d, want %d: %s", r.code, tc.code, r.err)
			}
			if tc.webhooks == nil {
				return
			}
			var d report.Document
			if err := json.Unmarshal([]byte(r.out), &d); err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, w := range d.Webhooks {
				got = append(got, w.Name)
			}
			if !slices.Equal(got, tc.webhooks) || d.Totals.Webhooks != len(got) {
				t.Errorf("got %q, total %d, want %q", got, d.Totals.Webhooks, tc.webhooks)
			}
		})
	}
}

// TestSelectionOfABaseline compares like with like.
func TestSelectionOfABaseline(t *testing.T) {
	before := written(t, "testdata/webhooks.yaml", "testdata/reviews.yaml", "--server-version", "v1.36")
	r := execute(t, "", "audit", "testdata/webhooks.yaml", "--server-version", "v1.36", "--baseline", before, "validatingwebhookconfiguration/policy")
	if r.code != exitOK || !strings.Contains(r.out, "Nothing added; nothing resolved.") {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
}
