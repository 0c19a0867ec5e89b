package main

import (
	"errors"
	"fmt"
	"slices"
)

// limit is how much of a figure one column may need for each unit of another. It is
// at least twice what is measured: it shows a computation that grew, on any machine
// and beside anything else.
type limit struct {
	row, of, to string
	most        float64
	// least is what the other column counts as at least: on a busy machine a start takes
	// so long that what goes on meanwhile, and the ticks of 10 ms, hide less.
	least float64
	// cure says what to look at where the limit is exceeded.
	cure string
}

const (
	plainInformers = "plain informers"
	stateMetrics   = "kube-state-metrics"

	watchesCure  = "pkg/inventory/cluster opens more watches than one for each kind, or more connections than one"
	startCure    = "profile the start: something is computed, read or decoded more than once before the first /metrics"
	memoryCure   = "profile the heap: something is kept for each webhook, or of objects that no webhook refers to"
	seriesCure   = "a metric family of pkg/exporter has a series for each rule or resource"
	scrapeCure   = "pkg/exporter renders or compresses for each scrape what has not changed"
	analysisCure = "profile `audit` of the file: an analysis of several webhooks compares each with each"
)

// liveLimits compare figures that a loaded machine changes little.
var liveLimits = []limit{
	{row: settledMemory, of: ours, to: stateMetrics, most: 3, cure: memoryCure},
	{row: seriesRow, of: ours, to: stateMetrics, most: 5, cure: seriesCure},
	// They have eleven watches.
	{row: watchesRow, of: ours, to: plainInformers, most: 16. / 11, cure: watchesCure},
	{row: connectionsRow, of: ours, to: plainInformers, most: 1, cure: watchesCure},
	{row: serverCPU, of: ours, to: plainInformers, most: 4, least: 0.4, cure: watchesCure},
	{row: startCPU, of: ours, to: plainInformers, most: 6, least: 0.2, cure: startCure},
}

// manyLimits are those of profiles with thousands of webhooks.
var manyLimits = []limit{
	{row: scrapeCPU, of: ours, to: stateMetrics, most: 1, cure: scrapeCure},
}

func (p profile) limits() []limit {
	if p.Configurations*p.Hooks >= 1000 {
		return slices.Concat(liveLimits, manyLimits)
	}
	return liveLimits
}

func shapeLimits() []limit {
	var out []limit
	for _, s := range shapes {
		out = append(out, limit{row: cpu, of: s.name, to: ordinaryShape, most: 6, cure: analysisCure})
	}
	return out
}

// growthLimits: what one webhook costs does not depend on how many there are.
func growthLimits() []limit {
	return []limit{{row: cpuEach, of: growthColumn(growth[2]), to: growthColumn(growth[1]), most: 2, cure: analysisCure}}
}

// exceeded returns an error for each limit that the table exceeds.
func (t *table) exceeded(limits []limit) error {
	var errs []error
	for _, l := range limits {
		of, to := t.column(l.of).median(l.row), max(t.column(l.to).median(l.row), l.least)
		if of > 0 && to > 0 && of/to > l.most {
			errs = append(errs, fmt.Errorf("%q: %s needs %.3g times as much as %s, limit %g: %s", l.row, l.of, of/to, l.to, l.most, l.cure))
		}
	}
	return errors.Join(errs...)
}
