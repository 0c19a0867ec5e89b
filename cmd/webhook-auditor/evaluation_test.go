package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// TestReady: not before the first Report. A metric has how long an evaluation is running.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTestDaemon(&bytes.Buffer{})
		for _, want := range []int{http.StatusServiceUnavailable, http.StatusOK} {
			response := httptest.NewRecorder()
			if d.ready(response, httptest.NewRequest(http.MethodGet, "/readyz", nil)); response.Code != want {
				t.Errorf("/readyz answers %d, want %d: %s", response.Code, want, response.Body)
			}
			d.publish(t.Context(), admission.New(dead(time.Now())))
		}
		end := d.begin()
		time.Sleep(20 * time.Second)
		if got := d.elapsed(); got != 20*time.Second {
			t.Errorf("running for %s", got)
		}
		if end(); d.elapsed() != 0 {
			t.Error("it is over and still running")
		}
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
