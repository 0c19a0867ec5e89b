package main

import (
	"runtime/debug"
	"testing"
)

// TestCollectLess: the percentage of the user is back after the first Report, and one
// that is higher was never lowered.
func TestCollectLess(t *testing.T) {
	percent := func() int {
		p := debug.SetGCPercent(-1)
		debug.SetGCPercent(p)
		return p
	}
	defer debug.SetGCPercent(percent())
	for _, c := range []struct{ configured, during int }{{50, startPercent}, {100, startPercent}, {400, 400}, {-1, -1}} {
		debug.SetGCPercent(c.configured)
		asConfigured := collectLess()
		if got := percent(); got != c.during {
			t.Errorf("GOGC=%d: %d%% during the start, want %d%%", c.configured, got, c.during)
		}
		asConfigured()
		asConfigured()
		if got := percent(); got != c.configured {
			t.Errorf("GOGC=%d: %d%% afterwards", c.configured, got)
		}
	}
}
