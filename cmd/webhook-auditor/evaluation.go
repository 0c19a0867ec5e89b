package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// longEvaluation is how long an evaluation may run before it is reported: the
// slowest that is known of takes less than a second.
const longEvaluation = 15 * time.Second

// evaluations reports how long evaluations take, and one that does not end while
// it runs: until then the metrics show the Report before.
type evaluations struct {
	duration prometheus.Histogram
	log      *slog.Logger
	// began is when the evaluation under way began; nil while there is none.
	began atomic.Pointer[time.Time]
}

// elapsed is how long the evaluation under way has been running; 0 where none
// is.
func (e *evaluations) elapsed() time.Duration {
	began := e.began.Load()
	if began == nil {
		return 0
	}
	return time.Since(*began)
}

// begin measures an evaluation, which ends with a call of end. A long one is reported
// while it runs.
func (e *evaluations) begin() (end func()) {
	began := time.Now()
	e.began.Store(&began)
	late := time.AfterFunc(longEvaluation, func() {
		e.log.Warn("an evaluation does not end; metrics show the report before it", "running", longEvaluation)
	})
	return func() {
		late.Stop()
		e.began.Store(nil)
		e.duration.Observe(time.Since(began).Seconds())
	}
}

// ready answers the probe: not before the first Report, nor while an evaluation is overdue.
func (d *daemon) ready(w http.ResponseWriter, _ *http.Request) {
	switch elapsed := d.evaluations.elapsed(); {
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
