package main

import (
	"context"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/observed"
)

// observePause is how many spans of an observation of run there are from one to the
// next: a minute by default.
const observePause = 6

// observeInterval is the time from one observation of run to the next.
func (o *observeFlags) observeInterval() time.Duration {
	if o.prometheus.URL != "" { // the span is a range of the past
		return time.Minute
	}
	return min(observePause*o.span, time.Minute)
}

func (o *operatorFlags) followObservation(ctx context.Context, d *daemon) error {
	observe := func(ctx context.Context) observation { return o.observe.observe(ctx, o.access) }
	return d.followObservation(ctx, time.Tick(o.observe.observeInterval()), observe)
}

// followObservation observes at once and at each tick, until ctx ends. It runs
// beside the watch, which never waits for it.
func (d *daemon) followObservation(ctx context.Context, ticks <-chan time.Time,
	observe func(context.Context) observation,
) error {
	keep := func() {
		found := observe(ctx)
		if !d.exportsObserved {
			found.scrapes = nil
		}
		if ctx.Err() == nil {
			d.observation.Store(&found)
		}
	}
	keep()
	return eachTick(ctx, ticks, keep)
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

// exportObserved is what the API servers counted last, with how many were read and how
// many there are, as metrics.
func (d *daemon) exportObserved() []*dto.MetricFamily {
	found := d.observation.Load()
	if found == nil || found.observed == nil {
		return nil
	}
	return append(observed.Export(found.scrapes),
		exporter.ObservedServers(len(found.scrapes), found.observed.OfServers)...)
}
