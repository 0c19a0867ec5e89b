//go:build faults

package faults

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// takeover bounds how long the other replica may take to write: until the
// lease has expired by its clock, and one more look.
const takeover = testenv.MaxWait

const writeErrors = auditor.Prefix + "condition_write_errors_total"

// pair is two replicas against one control plane.
type pair struct {
	*testenv.Env
	leader, other *auditor.Auditor
}

func newPair(t *testing.T) *pair {
	t.Helper()
	w := testenv.New(t, cluster.Options{WithoutControllers: true})
	w.InstallAPIs(t)
	p := &pair{Env: w, leader: w.Run(t, elected...)}
	testenv.Eventually(t, func() error { return p.held(t, p.leader) })
	p.other = w.Run(t, elected...)
	w.WaitForCondition(t, testenv.AsExpected("Degraded"))
	return p
}

// held wants a replica to hold the lease.
func (p *pair) held(t *testing.T, holder *auditor.Auditor) error {
	lease, err := p.Kube.CoordinationV1().Leases(testenv.Home).Get(t.Context(), "webhook-auditor", metav1.GetOptions{})
	if err == nil && !strings.HasSuffix(*lease.Spec.HolderIdentity, fmt.Sprintf("_%d", holder.PID())) {
		err = fmt.Errorf("%s holds the lease, not process %d", *lease.Spec.HolderIdentity, holder.PID())
	}
	return err
}

// broken registers a webhook whose Service is missing, and waits until both
// replicas say so.
func (p *pair) broken(t *testing.T, name string, replicas ...*auditor.Auditor) {
	t.Helper()
	p.Validate(t, name, unserved(name))
	for _, a := range replicas {
		testenv.Get(a.Eventually(t.Context(), metrics.Present(finding, metrics.Labels{"check": "service-missing", "configuration": name})))(t)
	}
}

// TestFaultTakeOver kills the one that writes: the other goes on, and reports what
// happened in between.
func TestFaultTakeOver(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.leader.Kill()
	p.broken(t, "meanwhile", p.other)
	testenv.EventuallyWithin(t, takeover, func() error { return p.held(t, p.other) })
	awaitDegraded(t, p.Env, "meanwhile")
	p.WaitForEvent(t, "meanwhile", "Warning", "service-missing")
	equalsAudit(t, p.Env, p.other)
}

// TestFaultDeadCatchAll: a dead webhook on everything but subresources keeps the
// lease from being renewed and Events from being recorded. Conditions go on,
// also after a restart, and what could not be written is written when it heals.
func TestFaultDeadCatchAll(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.Validate(t, "all", testenv.CatchAll("*"))
	p.broken(t, "first", p.leader, p.other)
	awaitDegraded(t, p.Env, "first")
	leases := p.Kube.CoordinationV1().Leases(testenv.Home)
	lease := testenv.Get(leases.Get(t.Context(), "webhook-auditor", metav1.GetOptions{}))(t)
	if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err == nil {
		t.Error("the lease can be written, so the test shows nothing")
	}
	p.leader.Kill()
	fresh := p.Run(t, elected...)
	p.other.Kill()
	p.broken(t, "second", fresh)
	awaitDegraded(t, p.Env, "second")
	p.Unregister(t, "all")
	testenv.EventuallyWithin(t, takeover, func() error { return p.held(t, fresh) })
	p.WaitForEvent(t, "second", "Warning", "service-missing")
	testenv.Get(fresh.Eventually(t.Context(), counted(writeErrors)))(t)
	equalsAudit(t, p.Env, fresh)
}

// TestFaultHanging: as above, but the webhook never answers, so that every
// write takes its timeout. The conditions still go on where they may, the log
// names the webhook, a replica that starts comes up, and one that is asked to
// end ends.
func TestFaultHanging(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	b := p.Backend(t, "hanging")
	p.Validate(t, "all", testenv.Hanging(b, "*"))
	p.broken(t, "first", p.leader, p.other)
	awaitDegraded(t, p.Env, "first")
	testenv.Get(p.leader.Eventually(t.Context(), counted(writeErrors)))(t)
	p.Unregister(t, "all")
	p.WaitForEvent(t, "first", "Warning", "service-missing")
	namesOnce(t, p.leader, "all.e2e.example.com")

	h := testenv.Hanging(b, "*/*")
	h.Name = "subresources.e2e.example.com"
	p.Validate(t, "subresources", h)
	p.broken(t, "second", p.leader, p.other)
	fresh := p.Run(t, elected...)
	testenv.Get(fresh.Eventually(t.Context(), metrics.Present(finding, metrics.Labels{"configuration": "second"})))(t)
	testenv.EventuallyWithin(t, takeover, func() error {
		if !strings.Contains(p.leader.Output(), "webhook="+h.Name) {
			return errors.New("the log does not name the webhook")
		}
		return nil
	})
	testenv.Must(t, p.leader.Stop())
	if code := p.leader.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p.Unregister(t, "subresources")
	awaitDegraded(t, p.Env, "second")
	p.WaitForEvent(t, "second", "Warning", "service-missing")
	equalsAudit(t, p.Env, fresh, p.other)
}

// namesOnce wants the log to name once the webhook that blocks, and then that it
// works again.
func namesOnce(t *testing.T, a *auditor.Auditor, webhook string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		log := a.Output()
		_, after, _ := strings.Cut(log, "webhook="+webhook)
		if n := strings.Count(log, "webhook="+webhook); n != 1 {
			return fmt.Errorf("the log names the webhook %d times, want once:\n%s", n, log)
		}
		if !strings.Contains(after, "recovered") {
			return fmt.Errorf("the log does not say that recovered:\n%s", log)
		}
		return nil
	})
}

// counted wants a counter to have counted.
func counted(name string) metrics.Condition {
	return func(m metrics.Metrics) error {
		if m.Select(name, nil).Sum() == 0 {
			return fmt.Errorf("%s is 0", name)
		}
		return nil
	}
}
