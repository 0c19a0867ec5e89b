package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// TestLongEvaluationIsReported by /readyz, a metric and one line of the log,
// while it runs; afterwards all is as before.
func TestLongEvaluationIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := newTestDaemon(&log)
		wants := func(when string, code int, running float64, lines int) {
			t.Helper()
			response := httptest.NewRecorder()
			d.ready(response, httptest.NewRequest(http.MethodGet, "/readyz", nil))
			if response.Code != code {
				t.Errorf("%s: /readyz answers %d, want %d: %s", when, response.Code, code, response.Body)
			}
			if got := d.elapsed().Seconds(); got != running {
				t.Errorf("%s: running for %g s, want %g", when, got, running)
			}
			if n := strings.Count(log.String(), "an evaluation does not end"); n != lines {
				t.Errorf("%s: %d lines, want %d:\n%s", when, n, lines, log.String())
			}
		}
		wants("before the first report", 503, 0, 0)
		d.publish(t.Context(), admission.New(dead(time.Now())))
		wants("after it", 200, 0, 0)
		finish, finished := make(chan bool), make(chan bool)
		go func() {
			end := d.begin()
			<-finish
			end()
			close(finished)
		}()
		time.Sleep(longEvaluation - time.Second)
		wants("before it is long", 200, 14, 0)
		time.Sleep(6 * time.Second)
		wants("while it is long", 503, 20, 1)
		close(finish)
		<-finished
		wants("afterwards", 200, 0, 1)
	})
}

// TestEvaluationEndsWithItsContext: what is not complete is not published.
func TestEvaluationEndsWithItsContext(t *testing.T) {
	d := newTestDaemon(&bytes.Buffer{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d.publish(ctx, admission.New(dead(time.Now())))
	if d.current() != nil {
		t.Error("an evaluation that was ended is published")
	}
}
