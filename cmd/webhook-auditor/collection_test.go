package main

import (
	"runtime/debug"
	"testing"
)

// TestCollectLess: the percentage of the user is back after the first Report, and one
// that is higher was never lowered.
func TestCollectLess(t *testing.T) {
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

// TestCollectMore: a percentage of the user stays.
func TestCollectMore(t *testing.T) {
	defer debug.SetGCPercent(percent())
	for variable, want := range map[string]int{"": filesPercent, "80": 80, "off": 80} {
		t.Setenv("GOGC", variable)
		debug.SetGCPercent(80)
		collectMore()
		if got := percent(); got != want {
			t.Errorf("GOGC=%s: %d%%, want %d%%", variable, got, want)
		}
	}
}

func percent() int {
	p := debug.SetGCPercent(-1)
	debug.SetGCPercent(p)
	return p
}
