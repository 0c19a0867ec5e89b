package main

import (
	"strings"
	"testing"
)

func TestExceededNamesTheRowAndTheCure(t *testing.T) {
	limits := []limit{{row: "watches", most: 4, least: 2, cure: "look at the watches"}}
	for _, tt := range []struct {
		ours, theirs float64
		exceeded     bool
	}{
		{12, 3, false}, // just the limit
		{13, 3, true},
		{8, 1, false}, // fewer than the least count as that
		{9, 1, true},
		{0, 3, false}, // not measured
	} {
		table := &table{}
		table.column(ours).add("watches", tt.ours)
		table.column(stateMetrics).add("watches", tt.theirs)
		err := table.exceeded(limits)
		if (err != nil) != tt.exceeded {
			t.Errorf("%v of %v: %v, want exceeded %v", tt.ours, tt.theirs, err, tt.exceeded)
		}
		if err != nil && !(strings.Contains(err.Error(), `"watches"`) && strings.Contains(err.Error(), "look at the watches")) {
			t.Errorf("the error names neither row nor cure: %v", err)
		}
	}
}
