package main

import (
	"errors"
	"fmt"
)

// limit is how much of a figure the auditor may need for each unit that kube-state-metrics
// needs. Most are twice what is measured: they show a computation that grew, on any machine
// and beside anything else.
type limit struct {
	row  string
	most float64
	// least is what theirs counts as at least: on a busy machine a start takes so long
	// that what goes on meanwhile, and the ticks of 10 ms, hide less.
	least float64
	// cure says what to look at where the limit is exceeded.
	cure string
}

const watchesCure = "pkg/inventory/cluster opens more watches than one for each kind, or reads more at the start"

// limits compare figures that a loaded machine changes little.
var limits = []limit{
	{row: settledMemory, most: 2, cure: "profile the heap: something is kept for each webhook, or of objects that no webhook refers to"},
	{row: seriesRow, most: 1, cure: "a metric family of pkg/exporter has a series for each rule or resource"},
	{row: watchesRow, most: 16. / 10, cure: watchesCure}, // they have ten
	{row: serverCPU, most: 4, least: 0.4, cure: watchesCure},
	{row: startCPU, most: 4, least: 0.2, cure: "profile the start: something is computed, read or decoded more than once before the first /metrics"},
}

// exceeded returns an error for each limit that the table exceeds.
func (t *table) exceeded(limits []limit) error {
	var errs []error
	for _, l := range limits {
		of, to := t.column(ours).median(l.row), max(t.column(stateMetrics).median(l.row), l.least)
		if of > 0 && to > 0 && of/to > l.most {
			errs = append(errs, fmt.Errorf("%q: %s needs %.3g times as much as %s, limit %g: %s", l.row, ours, of/to, stateMetrics, l.most, l.cure))
		}
	}
	return errors.Join(errs...)
}
