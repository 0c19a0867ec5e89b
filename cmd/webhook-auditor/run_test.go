package main

import (
	"strings"
	"testing"
)

// TestPolicyReportFlags: who asks for reports that nothing would write, or in a
// form that does not exist, reads what the flag must be.
func TestPolicyReportFlags(t *testing.T) {
	for want, flags := range map[string][]string{
		"--policy-reports: must be off without --leader-elect":                 {"--policy-reports=openreports"},
		"\"--policy-reports\" flag: must be one of off, openreports, wgpolicy": {"--policy-reports=kyverno", "--leader-elect", "--namespace=x"},
	} {
		got := execute(t, "", append([]string{"run"}, flags...)...)
		if got.code != exitUsage || !strings.Contains(got.err, want) {
			t.Errorf("run %v: exit code %d, %q, want %q", flags, got.code, got.err, want)
		}
	}
	got := execute(t, "", "print", "rbac", "--policy-reports=wgpolicy")
	if got.code != 0 || !strings.Contains(got.out, "clusterpolicyreports") || strings.Contains(got.out, "kind: Role\n") {
		t.Errorf("print rbac: %+v", got)
	}
}

// TestPageURL: what is no address of a page is refused before it stands in alerts.
func TestPageURL(t *testing.T) {
	for _, artifact := range []string{"rules", "dashboards"} {
		got := execute(t, "", "print", artifact, "--page-url=auditor.example.com")
		if got.code != exitUsage || !strings.Contains(got.err, "--page-url: must be a URL as https://") {
			t.Errorf("print %s: exit code %d, %s", artifact, got.code, got.err)
		}
		if got := execute(t, "", "print", artifact, "--page-url=https://auditor.example.com"); got.code != exitOK || !strings.Contains(got.out, "https://auditor.example.com/webhooks?type=") {
			t.Errorf("print %s: exit code %d, %s", artifact, got.code, got.err)
		}
	}
}
