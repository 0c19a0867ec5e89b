//go:build faults

package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

const (
	goroutines = "go_goroutines"
	memory     = "process_resident_memory_bytes"
	mebibyte   = 1 << 20
)

// value is the one value of a series.
func (s *stage) value(t *testing.T, name string) float64 {
	t.Helper()
	m := testenv.Get(s.Scrape(t.Context()))(t)
	return m.Select(name, nil).Sum()
}

// churn creates and deletes a thousand configurations within a minute, each
// with a backend that is missing: nothing of them stays. Each change makes a
// Report of thousands of findings while the last one is still being served.
func churn(t *testing.T, s *stage) {
	const configurations, limit = 1000, 160 * mebibyte
	before := s.value(t, goroutines)
	total := len(testenv.Get(s.Scrape(t.Context()))(t).Select(info, nil))
	begun := time.Now()
	testenv.Must(t, inParallel(configurations, func(i int) error { return s.registerOne(t.Context(), i) }))
	testenv.EventuallyWithin(t, recovery, func() error { return s.counts(t.Context(), total+configurations) })
	if used := s.value(t, memory); used > limit {
		t.Errorf("%.0f MiB resident, want at most %d", used/mebibyte, limit/mebibyte)
	}
	testenv.Must(t, inParallel(configurations, func(i int) error { return s.forget(t.Context(), i) }))
	if took := time.Since(begun); took > time.Minute {
		t.Logf("creating and deleting took %s; the machine is slow", took)
	}
	testenv.EventuallyWithin(t, recovery, func() error { return s.counts(t.Context(), total) })
	s.settles(t, before)
}

// settles waits until there are no more goroutines than before.
func (s *stage) settles(t *testing.T, before float64) {
	t.Helper()
	const scrapes = 10 // connections of our own
	testenv.EventuallyWithin(t, recovery, func() error {
		if now := s.value(t, goroutines); now > before+scrapes {
			return fmt.Errorf("%v goroutines, %v before", now, before)
		}
		return nil
	})
}

func (s *stage) counts(ctx context.Context, want int) error {
	return s.scrapes(ctx, func(m metrics.Metrics) error {
		if n := len(m.Select(info, nil)); n != want {
			return fmt.Errorf("%d webhooks, want %d", n, want)
		}
		return nil
	})
}

func crowd(i int) string { return fmt.Sprintf("crowd-%d", i) }

// registerOne makes one of the crowd; every tenth has a backend of its own.
func (s *stage) registerOne(ctx context.Context, i int) error {
	h := unserved("all")
	h.ClientConfig.Service.Namespace = crowd(i / 10)
	return s.register(ctx, crowd(i), h)
}

func (s *stage) forget(ctx context.Context, i int) error {
	return s.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, crowd(i), metav1.DeleteOptions{})
}

// inParallel does something n times, eight at a time.
func inParallel(n int, do func(int) error) error {
	var group sync.WaitGroup
	errs := make([]error, n)
	slots := make(chan struct{}, 8)
	for i := range n {
		slots <- struct{}{}
		group.Go(func() {
			errs[i] = do(i)
			<-slots
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// soak keeps changing things: neither memory nor goroutines grow.
func soak(t *testing.T, s *stage) {
	const some = 20
	round := func() {
		testenv.Must(t, inParallel(some, func(i int) error { return s.registerOne(t.Context(), i) }))
		testenv.Must(t, inParallel(some, func(i int) error { return s.forget(t.Context(), i) }))
	}
	round()
	before, used := s.value(t, goroutines), s.value(t, memory)
	rounds := 0
	for begun := time.Now(); time.Since(begun) < soaking(); rounds++ {
		round()
		if rounds%500 == 0 {
			t.Logf("%8s: %5d rounds, %.0f MiB resident, %v goroutines", time.Since(begun).Round(time.Second), rounds, s.value(t, memory)/mebibyte, s.value(t, goroutines))
		}
	}
	s.settles(t, before)
	now := s.value(t, memory)
	t.Logf("%d configurations came and went; %.0f MiB resident, %.0f before", rounds*some, now/mebibyte, used/mebibyte)
	if now > used+20*mebibyte {
		t.Errorf("%.0f MiB resident, %.0f before", now/mebibyte, used/mebibyte)
	}
}

// TestFaultTerminatedDuringAWrite ends the auditor while the API server is still
// busy with its write: the write is finished, and the exit is clean.
func TestFaultTerminatedDuringAWrite(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	begun, finish := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(begun) })
	s.proxy.Break(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "clusteroperators") {
			once()
			<-finish
		}
		return false
	})
	s.missing(t, "last")
	<-begun
	testenv.Must(t, syscall.Kill(s.PID(), syscall.SIGTERM))
	close(finish)
	<-s.Done()
	if code := s.ExitCode(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, s.Output())
	}
	for _, name := range []string{"Available", "Degraded", "ValidatingAdmissionWebhookConfigurationError"} {
		testenv.Must(t, s.Condition(t.Context(), testenv.ClusterOperator, metav1.Condition{Type: name, Status: metav1.ConditionTrue}))
	}
	other := &stage{Env: s.Env, Auditor: s.replica(t, elected...), proxy: s.proxy}
	other.awaitReported(t, "last")
	equalsAudit(t, s.Env, other.Auditor)
}
