package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/access"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/operator"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster"
)

type daemon struct {
	// evaluating guards inEffect: Snapshots and Policies change at the same time.
	evaluating sync.Mutex
	inEffect   classify.Policy
	tracker    *operator.Tracker
	history    *impact.History
	// clock is the time that conditions are computed for.
	clock  func() time.Time
	log    *slog.Logger
	writer *operator.Writer // nil where nothing is written to the cluster

	own *exporter.Own
	// began is when the evaluation under way began; nil while there is none.
	began atomic.Pointer[time.Time]
	// observation is what the status page shows as observed; nil without a source.
	observation atomic.Pointer[observation]
	// exportsObserved says that /metrics has what the API servers count.
	exportsObserved bool
	panicLog        *slog.Logger

	writeLog, tokenLog, accessLog, caLog, certificateLog, unreadLog messageLog
	// unreadable are the objects that unreadLog is about.
	unreadable messageLog
}

func newDaemon(policy classify.Policy, tracker *operator.Tracker, log *slog.Logger) *daemon {
	d := &daemon{inEffect: policy, tracker: tracker, history: &impact.History{}, clock: time.Now, log: log}
	d.own = exporter.NewOwn(func() float64 { return d.elapsed().Seconds() })
	d.own.PolicyLoaded(time.Now())
	d.panicLog = slog.New(newCountedLog(log.Handler(), d.own.PagePanics))
	return d
}

// lastTaken is the clock of a recording: that of the last Snapshot, which the Tracker keeps.
func lastTaken() time.Time { return time.Time{} }

func (d *daemon) current() *classify.Report { return d.tracker.Current(d.clock()) }

// publish makes the Report of the Matcher's Snapshot the current one, unless ctx ends
// first. nil stands for the last one, which another Policy evaluates in another way.
func (d *daemon) publish(ctx context.Context, m *admission.Matcher) { d.publishInput(ctx, m, m) }

// publishInput does so of files: completed has what they lack as it was before.
func (d *daemon) publishInput(ctx context.Context, m, completed *admission.Matcher) {
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
	end := d.begin()
	report, err := d.inEffect.EvaluateBy(ctx, m)
	still := report
	if err == nil && completed != m && completed != nil {
		still, err = d.inEffect.EvaluateBy(ctx, completed)
	}
	end()
	if err != nil {
		return
	}
	d.tracker.Observe(report)
	d.compare(before, report, still)
	if d.writer != nil {
		d.writer.Notify()
	}
	d.unread(report.Errors)
	d.logChanges(before, report)
	if before != nil && s.Regressions > before.Snapshot.Regressions {
		d.log.Warn("resource version of the API server went back, as after a restore of etcd; listing everything again")
	}
}

func (d *daemon) compare(before, now, completed *classify.Report) {
	for _, c := range d.history.ObserveInput(before, now, completed) {
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

// unread logs what cannot be read, each once, and once each object that can be read again, or
// is no longer asked for: not while the loss of the API server hides that.
func (d *daemon) unread(errs []inventory.Error) {
	var repeated []string
	texts := lists.Map(errs, inventory.Error.Error)
	objects := lists.Map(errs, func(e inventory.Error) string { return e.Object })
	for _, text := range d.unreadLog.add(texts) {
		d.log.Warn("cannot read resource", "err", text)
	}
	d.unreadable.add(objects)
	if !slices.Contains(objects, cluster.APIServer) {
		d.unreadLog.change(texts)
		_, repeated = d.unreadable.change(objects)
	}
	for _, object := range repeated {
		d.log.Info("resource readable again", "resource", object)
	}
}

// wrote counts the writes that failed, and logs each cause once, with the
// webhook that blocked it.
func (d *daemon) wrote(failed int, failing []error) {
	d.own.WriteErrors.Add(float64(failed))
	d.logOnce(&d.writeLog, "cannot write to the cluster; metrics are not affected", failing...)
}

// reviewed logs once of each kind that the API server cannot review who may scrape, and once
// that it can again.
func (d *daemon) reviewed(kind access.Kind, err error) {
	log := &d.accessLog
	if kind == access.Token {
		log = &d.tokenLog
	}
	d.logOnce(log, "cannot review who may scrape; known users keep access", err)
}

// panicked counts a page that panicked, and logs the first of a kind with its stack.
func (d *daemon) panicked(value any, stack []byte) {
	d.panicLog.Error(fmt.Sprintf("a page panicked: %v", value), "stack", string(stack))
}

// clientCA logs the same of the bundle that client certificates are verified
// with.
func (d *daemon) clientCA(err error) {
	d.logOnce(&d.caLog, "cannot read the CA of client certificates; tokens still work", err)
}

// serving logs, once, which certificate is served, and that the files cannot be read.
func (d *daemon) serving(ofFiles *x509.Certificate, err error) {
	switch {
	case err == nil:
		d.certificateLog.change(nil)
		d.log.Info("serving with the certificate of the files", "issuer", ofFiles.Issuer, "not_after", ofFiles.NotAfter.UTC().Format(time.RFC3339))
	case ofFiles == nil:
		if added, _ := d.certificateLog.change([]string{err.Error()}); len(added) > 0 {
			d.log.Info("serving with a self-signed certificate until the files exist", "because", err)
		}
	default:
		d.logOnce(&d.certificateLog, "cannot read the serving certificate; the last good one stays in use", err)
	}
}

// logOnce logs each failure once for the webhook that is responsible, else for the
// operation that failed, and once what recovered.
func (d *daemon) logOnce(before *messageLog, message string, errs ...error) {
	causes := map[string]error{}
	for _, err := range errs {
		if err != nil {
			causes[causeOf(err)] = err
		}
	}
	added, resolved := before.change(slices.Sorted(maps.Keys(causes)))
	for _, cause := range added {
		d.log.Warn(message, "err", causes[cause], "webhook", operator.Blocker(causes[cause]))
	}
	if len(resolved) > 0 {
		d.log.Info("recovered", "was", message, "from", strings.Join(resolved, ", "))
	}
}

// causeOf is the cause of a failure: a webhook, or the words in which the error says what
// was tried.
func causeOf(err error) string {
	if blocker := operator.Blocker(err); blocker != "" {
		return "webhook " + blocker
	}
	tried, _, _ := strings.Cut(err.Error(), ":")
	return tried
}

// messageLog remembers what is logged, so that nothing is logged twice.
// It is safe for concurrent use.
type messageLog struct {
	mu       sync.Mutex
	messages []string
}

func (s *messageLog) add(messages []string) (added []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	added = lists.Filter(lists.Once(messages), func(m string) bool { return !slices.Contains(s.messages, m) })
	s.messages = append(s.messages, added...)
	return added
}

func (s *messageLog) change(messages []string) (added, resolved []string) {
	added = s.add(messages)
	s.mu.Lock()
	defer s.mu.Unlock()
	isGone := func(m string) bool { return !slices.Contains(messages, m) }
	resolved = lists.Filter(s.messages, isGone)
	s.messages = slices.DeleteFunc(s.messages, isGone)
	return added, resolved
}

// elapsed is how long the evaluation under way has been running; 0 where none
// is.
func (d *daemon) elapsed() time.Duration {
	began := d.began.Load()
	if began == nil {
		return 0
	}
	return time.Since(*began)
}

func (d *daemon) begin() (end func()) {
	began := time.Now()
	d.began.Store(&began)
	return func() {
		d.began.Store(nil)
		d.own.Duration.Observe(time.Since(began).Seconds())
	}
}

// ready answers the probe: not before the first Report.
func (d *daemon) ready(w http.ResponseWriter, r *http.Request) {
	if d.current() == nil {
		http.Error(w, "waiting for the first snapshot", http.StatusServiceUnavailable)
		return
	}
	healthy(w, r)
}

func healthy(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }
