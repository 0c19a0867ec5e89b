package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// acknowledging is a Policy that acknowledges all findings on dead.
const acknowledging = "acknowledgements: [{configuration: policy, reason: its software is being replaced}]\n"

// followed is a daemon that follows a Policy file.
type followed struct {
	*daemon
	file string
	log  *bytes.Buffer
	tick chan time.Time
}

// follow starts to follow a file of the content, and ends with the test.
func follow(t *testing.T, file, content string) followed {
	t.Helper()
	var log bytes.Buffer
	f := followed{newTestDaemon(&log), file, &log, make(chan time.Time)}
	in := &input{config: file}
	f.write(t, content)
	f.publish(t.Context(), admission.New(dead(time.Now())))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- in.followPolicy(ctx, []byte(content), f.tick, func(p classify.Policy, err error) { f.policyChanged(ctx, p, err) })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ends with %v", err)
		}
	})
	return f
}

func (f followed) write(t *testing.T, content string) {
	t.Helper()
	must.Write(t, f.file, content)
}

// read has the file read n times: a tick is received once the reading before is
// done, hence one more, which reads what the test does not change meanwhile.
func (f followed) read(n int) {
	for range n + 1 {
		f.tick <- time.Time{}
	}
}

// checkState holds what is in effect, and what /metrics says of the last reload.
func (f followed) checkState(t *testing.T, step string, acknowledged int, successful float64) {
	t.Helper()
	if got := f.current().Totals(); got.Acknowledged != acknowledged || got.Critical+got.Acknowledged != 1 {
		t.Errorf("%s: %+v, want %d acknowledged", step, got, acknowledged)
	}
	want := strings.NewReader(`# HELP webhook_auditor_policy_last_reload_successful Whether the last attempt to load the Policy was successful: 1 or 0. While it is 0, the last good Policy stays in effect.
# TYPE webhook_auditor_policy_last_reload_successful gauge
webhook_auditor_policy_last_reload_successful ` + map[float64]string{0: "0", 1: "1"}[successful] + "\n")
	registry := prometheus.NewRegistry()
	registry.MustRegister(f.own.Collectors()...)
	if err := testutil.GatherAndCompare(registry, want, "webhook_auditor_policy_last_reload_successful"); err != nil {
		t.Errorf("%s: %v", step, err)
	}
}

// TestPolicyIsReloaded: a changed file takes effect on the last Snapshot at
// once; a bad one leaves the last good Policy in effect and is logged once.
func TestPolicyIsReloaded(t *testing.T) {
	f := follow(t, filepath.Join(t.TempDir(), "policy.yaml"), "{}")
	f.read(2)
	f.checkState(t, "unchanged", 0, 1)
	f.write(t, acknowledging)
	f.read(2)
	f.checkState(t, "edited", 1, 1)
	for content, problem := range map[string]string{"clases: {}": "unknown field", "budgets: 3": "Policy.budgets"} {
		f.write(t, content)
		f.read(4)
		f.checkState(t, content, 1, 0)
		if n := strings.Count(f.log.String(), problem); n != 1 {
			t.Errorf("%q is logged %d times:\n%s", problem, n, f.log)
		}
	}
	f.write(t, acknowledging)
	f.read(2)
	f.checkState(t, "good again", 1, 1)
	must.Succeed(t, os.Remove(f.file))
	f.read(2)
	f.checkState(t, "removed", 1, 0)
	f.write(t, "{}")
	f.read(2)
	f.checkState(t, "back", 0, 1)
	if n := strings.Count(f.log.String(), "reloaded the Policy"); n != 3 {
		t.Errorf("reloaded %d times, want 3:\n%s", n, f.log)
	}
}

// TestHalfWrittenPolicyIsNoChange: an editor may truncate the file before it
// writes, and an empty file would be the default Policy.
func TestHalfWrittenPolicyIsNoChange(t *testing.T) {
	const good, empty, better = acknowledging, "", "caExpiryDays: 60"
	changes := policyChanges{last: good, handled: good}
	for i, step := range []struct {
		reading string
		want    bool
	}{{good, false}, {empty, false}, {good, false}, {good, false}, {empty, false}, {better, false}, {better, true}, {better, false}, {empty, false}, {empty, true}} {
		if got := changes.changed(step.reading); got != step.want {
			t.Errorf("reading %d, %q: %t, want %t", i, step.reading, got, step.want)
		}
	}
}

// TestPolicyIsAFile: what may never end, or can be read once only, is no Policy.
func TestPolicyIsAFile(t *testing.T) {
	for _, config := range []string{os.DevNull, t.TempDir(), pipe(t)} {
		if _, err := (&input{config: config}).policy(); err == nil || !strings.Contains(err.Error(), "must be a regular file") {
			t.Errorf("%q: %v", config, err)
		}
	}
}

// TestPolicyBeforeTheFirstSnapshot: it is in effect from the first one on.
func TestPolicyBeforeTheFirstSnapshot(t *testing.T) {
	d := newTestDaemon(&bytes.Buffer{})
	policy, err := classify.ParsePolicy([]byte(acknowledging))
	d.policyChanged(t.Context(), policy, err)
	if d.current() != nil {
		t.Error("a Report before the first Snapshot")
	}
	d.publish(t.Context(), admission.New(dead(time.Now())))
	if got := d.current().Totals(); got.Acknowledged != 1 {
		t.Errorf("%+v, want 1 acknowledged", got)
	}
}
