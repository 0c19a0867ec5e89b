package main

import (
	"context"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/operator"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/observed"
)

// TestObservedReport: the page shows what was observed last and why it failed;
// what metrics and conditions are made of stays as it is.
func TestObservedReport(t *testing.T) {
	d := &daemon{clock: time.Now, tracker: operator.NewTracker(operator.TrackerOptions{})}
	if d.observed() != nil {
		t.Error("a Report before the first Snapshot")
	}
	snapshot := inventory.Objects{}.Snapshot(time.Now())
	report := reporttest.Evaluated(t, snapshot)
	d.tracker.Observe(report)
	ticks, found := make(chan time.Time), make(chan observation)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- d.followObservation(ctx, ticks, func(context.Context) observation { return <-found })
	}()
	found <- observation{observed: &inventory.Observation{Source: "apiserver"}}
	ticks <- time.Now()
	if r := d.observed(); r.Snapshot.Observed == nil || len(r.Errors) != len(report.Errors) {
		t.Errorf("observed %+v, errors %v", r.Snapshot.Observed, r.Errors)
	}
	found <- observation{errors: []inventory.Error{{Object: "Prometheus", Message: "refused"}}}
	ticks <- time.Now()
	if r := d.observed(); r.Snapshot.Observed != nil || len(r.Errors) != len(report.Errors)+1 {
		t.Errorf("observed %+v, errors %v", r.Snapshot.Observed, r.Errors)
	}
	if d.current().Snapshot != snapshot {
		t.Error("the Snapshot of the metrics is another one")
	}
	cancel()
	found <- observation{observed: &inventory.Observation{}}
	if err := <-ended; err == nil {
		t.Error("followed on after the end of its context")
	}
	if d.observed().Snapshot.Observed != nil {
		t.Error("what was observed after the end is shown")
	}
}

// TestExportObserved: what was observed last is exported, with how many API servers that
// are; where it is not asked for, nothing is kept.
func TestExportObserved(t *testing.T) {
	for _, exports := range []bool{true, false} {
		d := &daemon{exportsObserved: exports}
		if got := d.exportObserved(); got != nil {
			t.Errorf("before the first observation: %v", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ticks := make(chan time.Time)
		ended := make(chan error)
		go func() {
			ended <- d.followObservation(ctx, ticks, func(context.Context) observation {
				return observation{observed: &inventory.Observation{OfServers: 3}, scrapes: make([]observed.Scrape, 1)}
			})
		}()
		ticks <- time.Now()
		cancel()
		<-ended
		if kept := d.observation.Load().scrapes != nil; kept != exports {
			t.Errorf("exports %t, kept %t", exports, kept)
		}
		var names []string
		for _, f := range d.exportObserved() {
			names = append(names, f.GetName())
		}
		expect.Equal(t, []string{"webhook_auditor_observed_apiservers", "webhook_auditor_apiservers"}, names)
	}
}
