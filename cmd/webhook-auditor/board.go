package main

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/access"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/operator"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// board holds what the parts of the daemon share.
type board struct {
	// evaluating guards judge: Snapshots and Policies change at the same time.
	evaluating sync.Mutex
	judge      classify.Succession
	tracker    *operator.Tracker
	log        *slog.Logger
	writer     *operator.Writer // nil where nothing is written to the cluster

	evaluations *evaluations
	writeErrors prometheus.Counter
	policy      exporter.PolicyReload
	messages    *prometheus.CounterVec

	unreadable                  unreadable
	writes, reviews, cas, pairs said

	mu sync.Mutex
	// unasked is why a kind of review could not be asked last.
	unasked map[access.Kind]error
}

func newBoard(policy classify.Policy, tracker *operator.Tracker, log *slog.Logger) *board {
	b := &board{
		judge:       classify.Succession{Policy: policy},
		tracker:     tracker,
		log:         log,
		evaluations: newEvaluations(log),
		writeErrors: exporter.NewConditionWriteErrors(),
		policy:      exporter.NewPolicyReload(),
		messages:    exporter.NewLibraryMessages(),
		unasked:     map[access.Kind]error{},
	}
	b.policy.Succeeded(time.Now())
	return b
}

// current is the last Report, with the conditions as they are now.
func (b *board) current() *classify.Report { return b.tracker.Current(time.Now()) }

func (b *board) publish(ctx context.Context, s *inventory.Snapshot) {
	b.evaluating.Lock()
	defer b.evaluating.Unlock()
	b.evaluate(ctx, s)
}

// evaluate makes the Report of the Snapshot the current one, unless ctx ends
// first.
func (b *board) evaluate(ctx context.Context, s *inventory.Snapshot) {
	report, err := b.evaluations.measure(func() (*classify.Report, error) { return b.judge.Evaluate(ctx, s) })
	if err != nil {
		return
	}
	before := b.current()
	b.tracker.Observe(report)
	if b.writer != nil {
		b.writer.Notify()
	}
	b.unread(s.Errors, s)
	b.announce(before, report)
	if before != nil && s.Regressions > before.Snapshot.Regressions {
		b.log.Warn("resource version of the API server went back, as after a restore of etcd; listing everything again")
	}
}

// announce logs what changed, one line per change of the totals: the findings
// themselves are on record in the metrics and are never logged as errors.
func (b *board) announce(before, now *classify.Report) {
	if before != nil && before.Totals() == now.Totals() && len(before.Profiles) == len(now.Profiles) {
		return
	}
	t := now.Totals()
	b.log.Info("evaluated", "webhooks", len(now.Profiles), "critical", t.Critical, "warning", t.Warning, "info", t.Info, "acknowledged", t.Acknowledged)
}

// waiting logs what cannot be read before the first Snapshot.
func (b *board) waiting(errs []inventory.Error) { b.unread(errs, nil) }

// unread logs what cannot be read, each once, and once when it can again.
func (b *board) unread(errs []inventory.Error, s *inventory.Snapshot) {
	added, again := b.unreadable.change(errs, neededIn(s))
	for _, e := range added {
		b.log.Warn("cannot read resource", "err", e.Error())
	}
	for _, object := range again {
		b.log.Info("resource readable again", "resource", object)
	}
}

// wrote counts the writes that failed, and logs each cause once, with the
// webhook that blocked it.
func (b *board) wrote(failed int, failing error) {
	b.writeErrors.Add(float64(failed))
	b.say(&b.writes, "could not write to the cluster; metrics go on", failing)
}

// reviewed logs, once, that it could not be asked who may scrape, and once that
// it can again.
func (b *board) reviewed(kind access.Kind, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unasked[kind] = err
	b.say(&b.reviews, "could not ask who may scrape; those known go on", errors.Join(b.unasked[access.Token], b.unasked[access.Access]))
}

// clientCA logs the same of the bundle that client certificates are verified
// with.
func (b *board) clientCA(err error) {
	const message = "could not read the CA of client certificates; tokens go on"
	b.say(&b.cas, message, err)
}

// serving logs which certificate is served with; without one, once, that the
// last good one goes on because the files cannot be read.
func (b *board) serving(leaf *x509.Certificate, err error) {
	if leaf == nil {
		b.say(&b.pairs, "could not read the serving certificate; the last good one goes on", err)
		return
	}
	b.pairs.change(nil)
	until := leaf.NotAfter.UTC().Format(time.RFC3339)
	if err != nil {
		b.log.Info("serving with a self-signed certificate until there is another", "because", err, "not_after", until)
		return
	}
	b.log.Info("serving with the certificate of the files", "issuer", leaf.Issuer, "not_after", until)
}

// say logs a failure once for each webhook that is to blame, else for each
// operation that failed, and once what works again. The error is all that fails.
func (b *board) say(before *said, message string, err error) {
	causes := causesOf(err)
	added, gone := before.change(slices.Sorted(maps.Keys(causes)))
	for _, cause := range added {
		b.log.Warn(message, "err", causes[cause], "webhook", operator.Blocker(causes[cause]))
	}
	if len(gone) > 0 {
		slices.Sort(gone)
		b.log.Info("it works again", "was", message, "after", strings.Join(gone, ", "))
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

// said remembers what was said, so that nothing is said twice.
// It is safe for concurrent use.
type said struct {
	mu       sync.Mutex
	messages map[string]bool
}

// change returns what is new and what is gone.
func (s *said) change(messages []string) (added, gone []string) {
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
