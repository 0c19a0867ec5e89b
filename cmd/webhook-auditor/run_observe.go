package main

import (
	"context"
	"slices"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// observeInterval is the time between two observations of run.
const observeInterval = time.Minute

// followObservation observes at once and at each tick, until ctx ends. It runs
// beside the watch, which never waits for it.
func (d *daemon) followObservation(ctx context.Context, ticks <-chan time.Time, observe func(context.Context) observation) error {
	for {
		found := observe(ctx)
		if ctx.Err() == nil {
			d.observation.Store(&found)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticks:
		}
	}
}

// observed is the current Report with what was observed last, and why that failed
// where it did. Only the status page shows it: metrics and conditions depend on
// no other source than the cluster.
func (d *daemon) observed() *classify.Report {
	report, found := d.current(), d.observation.Load()
	if report == nil || found == nil {
		return report
	}
	out := *report
	out.Snapshot = found.addTo(report.Snapshot)
	out.Errors = slices.Concat(report.Errors, found.errors)
	return &out
}
