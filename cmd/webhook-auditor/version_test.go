package main

import (
	"runtime/debug"
	"testing"
)

// TestModuleVersion: a program that "go install" builds knows its version.
func TestModuleVersion(t *testing.T) {
	for recorded, want := range map[string]string{
		"v1.2.3": "v1.2.3", "v0.0.0-20260101000000-0123456789ab+dirty": "v0.0.0-20260101000000-0123456789ab+dirty",
		"(devel)": "unknown", "": "unknown",
	} {
		if got := moduleVersion(&debug.BuildInfo{Main: debug.Module{Version: recorded}}); got != want {
			t.Errorf("%q: got %q, want %q", recorded, got, want)
		}
	}
	if got := moduleVersion(nil); got != "unknown" {
		t.Errorf("without information: %q", got)
	}
}
