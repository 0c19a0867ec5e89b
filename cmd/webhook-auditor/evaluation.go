package main

import (
	"fmt"
	"net/http"
	"time"
)

// longEvaluation is how long an evaluation may run before it is reported: the
// slowest that is known of takes less than a second.
const longEvaluation = 15 * time.Second

// elapsed is how long the evaluation under way has been running; 0 where none
// is.
func (d *daemon) elapsed() time.Duration {
	began := d.began.Load()
	if began == nil {
		return 0
	}
	return time.Since(*began)
}

// begin measures an evaluation, which ends with a call of end. One that does not end is
// reported while it runs: until then the metrics show the Report before.
func (d *daemon) begin() (end func()) {
	began := time.Now()
	d.began.Store(&began)
	late := time.AfterFunc(longEvaluation, func() {
		d.log.Warn("an evaluation does not end; metrics show the report before it", "running", longEvaluation)
	})
	return func() {
		late.Stop()
		d.began.Store(nil)
		d.own.Duration.Observe(time.Since(began).Seconds())
	}
}

// ready answers the probe: not before the first Report, nor while an evaluation is overdue.
func (d *daemon) ready(w http.ResponseWriter, _ *http.Request) {
	switch elapsed := d.elapsed(); {
	case elapsed > longEvaluation:
		http.Error(w, fmt.Sprintf("an evaluation has been running for %s; metrics show the report before it", elapsed.Round(time.Second)), http.StatusServiceUnavailable)
	case d.current() == nil:
		http.Error(w, "waiting for the first snapshot", http.StatusServiceUnavailable)
	default:
		healthy(w, nil)
	}
}

// healthy answers the probe of a program that runs.
func healthy(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }
