package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/operator"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/observed"
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

// TestRunFrom: files are served as of their own time and read anew when they change; what
// can no longer be read stays. A must-gather says when it was recorded.
func TestRunFrom(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "must-gather.local")
	registered := must.Get(os.ReadFile("testdata/webhooks.yaml"))(t)
	file := filepath.Join(folder, "cluster-scoped-resources", "admissionregistration.k8s.io", "validatingwebhookconfigurations.yaml")
	must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must.Succeed(t, os.WriteFile(filepath.Join(folder, "timestamp"), []byte("2026-01-02 03:04:05.0 +0000 UTC\n"), 0o644))
	must.Succeed(t, os.WriteFile(file, registered, 0o644))
	o, d, read := following(t, folder)
	serves := func(path, want string) {
		t.Helper()
		read()
		w := httptest.NewRecorder()
		o.web.handler(d).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if body := w.Body.String(); !strings.Contains(body, want) || strings.Contains(body, "ago<") || strings.Contains(body, "out of date") {
			t.Errorf("%s: no %q in\n%.2000s", path, want, body)
		}
	}
	serves("/", `recorded at <time datetime="2026-01-02T03:04:05Z"`)
	must.Succeed(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(registered), "example.com", "example.org")), 0o644))
	serves("/webhooks", "example.<wbr>org")
	must.Succeed(t, os.RemoveAll(folder))
	serves("/metrics", "example.org")
}

// following is what run serves of a folder, and a function that waits until it has read that anew.
func following(t *testing.T, folder string) (*operatorFlags, *daemon, func()) {
	t.Helper()
	o, d := &operatorFlags{source: source{access: &clusterFlags{}, input: &input{}, paths: []string{folder}}}, newTestDaemon(&bytes.Buffer{})
	o.web.maxSeries, d.clock = 1000, lastTaken
	first := o.readFiles(t.Context(), streams{err: io.Discard})
	must.Succeed(t, first.err)
	ctx, stop := context.WithCancel(t.Context())
	ticks, ended := make(chan time.Time), make(chan error)
	go func() { ended <- o.followFiles(ctx, d, first, ticks) }()
	t.Cleanup(func() { stop(); <-ended })
	return o, d, func() {
		for range 3 { // a change counts from its second reading on, and a third tick waits for that
			ticks <- time.Now()
		}
	}
}

// TestRunFromLeavesOpen: where files lack what they had, the findings that need it are not resolved.
func TestRunFromLeavesOpen(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "all.yaml")
	whole := string(must.Get(os.ReadFile(fixtures + "eviction-blocked.yaml"))(t))
	must.Succeed(t, os.WriteFile(file, []byte(whole), 0o644))
	_, d, read := following(t, folder)
	read()
	configuration, _, _ := strings.Cut(whole, "\n---\n")
	must.Succeed(t, os.WriteFile(file, []byte(strings.ReplaceAll(configuration, "sideEffects: None", "sideEffects: NoneOnDryRun")), 0o644))
	read()
	if changes := d.history.After(0); len(changes) != 1 || len(changes[0].Resolved) > 0 || len(changes[0].Differences) == 0 {
		t.Errorf("%+v", changes)
	}
}

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
