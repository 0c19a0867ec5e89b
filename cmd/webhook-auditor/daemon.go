package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/access"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/operator"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// daemon is the state of the command run.
type daemon struct {
	// evaluating guards inEffect: Snapshots and Policies change at the same time.
	evaluating sync.Mutex
	inEffect   classify.Policy
	tracker    *operator.Tracker
	// history has the last changes of registrations.
	history *impact.History
	log     *slog.Logger
	writer  *operator.Writer // nil where nothing is written to the cluster

	evaluations *evaluations
	// observation is what the status page shows as observed; nil without a source.
	observation atomic.Pointer[observation]
	// exportsObserved says that /metrics has what the API servers count.
	exportsObserved bool
	writeErrors     prometheus.Counter
	policy          exporter.PolicyReload
	messages        *prometheus.CounterVec
	// panics counts the pages that panicked; panicLog logs and counts them.
	panics   prometheus.Counter
	panicLog *slog.Logger

	unreadable                                 unreadable
	writeLog, reviewLog, caLog, certificateLog messageLog

	mu sync.Mutex
	// unasked is the last error of each kind of review, nil after a success.
	unasked map[access.Kind]error
}

func newDaemon(policy classify.Policy, tracker *operator.Tracker, log *slog.Logger) *daemon {
	panics := exporter.NewPagePanics()
	d := &daemon{
		inEffect:    policy,
		tracker:     tracker,
		history:     &impact.History{},
		log:         log,
		evaluations: newEvaluations(log),
		writeErrors: exporter.NewConditionWriteErrors(),
		policy:      exporter.NewPolicyReload(),
		messages:    exporter.NewLibraryMessages(),
		panics:      panics,
		panicLog:    slog.New(newCountedLog(log.Handler(), panics)),
		unasked:     map[access.Kind]error{},
	}
	d.policy.Succeeded(time.Now())
	return d
}

// current is the last Report, with the conditions as they are now.
func (d *daemon) current() *classify.Report { return d.tracker.Current(time.Now()) }

// publish makes the Report of the Matcher's Snapshot the current one, unless ctx ends
// first. nil stands for the last one, which another Policy evaluates in another way.
func (d *daemon) publish(ctx context.Context, m *admission.Matcher) {
	d.evaluating.Lock()
	defer d.evaluating.Unlock()
	before := d.current()
	switch {
	case m == nil && before == nil:
		return
	case m == nil:
		m = before.Matcher
	}
	s := m.Snapshot
	end := d.evaluations.begin()
	report, err := d.inEffect.EvaluateBy(ctx, m)
	end()
	if err != nil {
		return
	}
	d.tracker.Observe(report)
	d.compare(before, report)
	if d.writer != nil {
		d.writer.Notify()
	}
	d.unread(report.Errors)
	d.logChanges(before, report)
	if before != nil && s.Regressions > before.Snapshot.Regressions {
		d.log.Warn("resource version of the API server went back, as after a restore of etcd; listing everything again")
	}
}

// compare records and logs what changed of the registrations.
func (d *daemon) compare(before, now *classify.Report) {
	for _, c := range d.history.Observe(before, now) {
		d.log.Info("registration changed", "type", c.Type, "configuration", c.Configuration, "by", c.Written.Manager, "change", c.String())
	}
}

// logChanges logs what changed, one line per change of the totals: the findings
// themselves are on record in the metrics and are never logged as errors.
func (d *daemon) logChanges(before, now *classify.Report) {
	if before != nil && before.Totals() == now.Totals() && len(before.Profiles) == len(now.Profiles) {
		return
	}
	t := now.Totals()
	d.log.Info("evaluated", "webhooks", len(now.Profiles), "critical", t.Critical, "warning", t.Warning, "info", t.Info, "acknowledged", t.Acknowledged)
}

// unread logs what cannot be read, each once, and once when it can again.
func (d *daemon) unread(errs []inventory.Error) {
	added, again := d.unreadable.change(errs)
	for _, e := range added {
		d.log.Warn("cannot read resource", "err", e.Error())
	}
	for _, object := range again {
		d.log.Info("resource readable again", "resource", object)
	}
}

// wrote counts the writes that failed, and logs each cause once, with the
// webhook that blocked it.
func (d *daemon) wrote(failed int, failing error) {
	d.writeErrors.Add(float64(failed))
	d.logOnce(&d.writeLog, "cannot write to the cluster; metrics are not affected", failing)
}

// reviewed logs once that the API server cannot review who may scrape, and once
// that it can again.
func (d *daemon) reviewed(kind access.Kind, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unasked[kind] = err
	d.logOnce(&d.reviewLog, "cannot review who may scrape; known users keep access", errors.Join(d.unasked[access.Token], d.unasked[access.Access]))
}

// panicked counts a page that panicked, and logs the first of a kind with its stack.
func (d *daemon) panicked(value any, stack []byte) {
	d.panicLog.Error(fmt.Sprintf("a page panicked: %v", value), "stack", string(stack))
}

// clientCA logs the same of the bundle that client certificates are verified
// with.
func (d *daemon) clientCA(err error) {
	const message = "cannot read the CA of client certificates; tokens still work"
	d.logOnce(&d.caLog, message, err)
}

// serving logs which certificate is served; without one, once, that the files
// cannot be read and the last good one stays in use.
func (d *daemon) serving(leaf *x509.Certificate, err error) {
	if leaf == nil {
		d.logOnce(&d.certificateLog, "cannot read the serving certificate; the last good one stays in use", err)
		return
	}
	d.certificateLog.change(nil)
	until := leaf.NotAfter.UTC().Format(time.RFC3339)
	if err != nil {
		d.log.Info("serving with a self-signed certificate until the files exist", "because", err, "not_after", until)
		return
	}
	d.log.Info("serving with the certificate of the files", "issuer", leaf.Issuer, "not_after", until)
}

// logOnce logs a failure once for each webhook that is responsible, else for each
// operation that failed, and once what recovered. The error joins all that fails.
func (d *daemon) logOnce(before *messageLog, message string, err error) {
	causes := causesOf(err)
	added, gone := before.change(slices.Sorted(maps.Keys(causes)))
	for _, cause := range added {
		d.log.Warn(message, "err", causes[cause], "webhook", operator.Blocker(causes[cause]))
	}
	if len(gone) > 0 {
		slices.Sort(gone)
		d.log.Info("recovered", "was", message, "from", strings.Join(gone, ", "))
	}
}

// byWebhook begins the cause of a failure that is due to a webhook.
const byWebhook = "webhook "

// causesOf are the failures in an error by their causes: a webhook, or the
// words in which the error says what was tried.
func causesOf(err error) map[string]error {
	out := map[string]error{}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			maps.Copy(out, causesOf(e))
		}
		return out
	}
	if blocker := operator.Blocker(err); blocker != "" {
		out[byWebhook+blocker] = err
	} else if err != nil {
		tried, _, _ := strings.Cut(err.Error(), ":")
		out[tried] = err
	}
	return out
}

// messageLog remembers what is logged, so that nothing is logged twice.
// It is safe for concurrent use.
type messageLog struct {
	mu       sync.Mutex
	messages map[string]bool
}

// change returns what is new and what is gone.
func (s *messageLog) change(messages []string) (added, gone []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := map[string]bool{}
	for _, m := range messages {
		now[m] = true
		if !s.messages[m] {
			added = append(added, m)
		}
	}
	for m := range s.messages {
		if !now[m] {
			gone = append(gone, m)
		}
	}
	s.messages = now
	return added, gone
}
