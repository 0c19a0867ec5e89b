package main

import (
	"strings"
	"testing"
)

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
