package main

import (
	"runtime/debug"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
)

// TestModuleVersion: a program that "go install" builds knows its version.
func TestModuleVersion(t *testing.T) {
	expect.Results(t, func(recorded string) string {
		return moduleVersion(&debug.BuildInfo{Main: debug.Module{Version: recorded}})
	}, map[string]string{
		"v1.2.3": "v1.2.3", "v0.0.0-20260101000000-0123456789ab+dirty": "v0.0.0-20260101000000-0123456789ab+dirty",
		"(devel)": "unknown", "": "unknown",
	})
	if got := moduleVersion(nil); got != "unknown" {
		t.Errorf("without information: %q", got)
	}
}
