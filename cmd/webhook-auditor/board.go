package main

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/operator"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// board is where the current Report hangs for everybody to read.
type board struct {
	judge      classify.Succession
	conditions exporter.ConditionOptions
	log        *slog.Logger
	report     atomic.Pointer[classify.Report]
	writer     *operator.Writer // nil where nothing is written to the cluster

	evaluation  prometheus.Histogram
	writeErrors prometheus.Counter

	looks, writes, reviews, cas said
}

func newBoard(policy classify.Policy, conditions exporter.ConditionOptions, log *slog.Logger) *board {
	return &board{
		judge:       classify.Succession{Policy: policy},
		conditions:  conditions,
		log:         log,
		evaluation:  exporter.NewEvaluationDuration(),
		writeErrors: exporter.NewConditionWriteErrors(),
	}
}

func (b *board) current() *classify.Report { return b.report.Load() }

func (b *board) publish(s *inventory.Snapshot) {
	began := time.Now()
	report := b.judge.Evaluate(s)
	b.evaluation.Observe(time.Since(began).Seconds())
	before := b.report.Load()
	if before != nil {
		report.Conditions = exporter.Conditions(report, before.Conditions, b.conditions)
	} else {
		report.Conditions = exporter.Conditions(report, nil, b.conditions)
	}
	b.report.Store(report)
	if b.writer != nil {
		b.writer.Publish(report)
	}
	b.waiting(s.Errors)
	b.announce(before, report)
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

// waiting logs what cannot be looked at, each once, and once when it can again.
func (b *board) waiting(errs []inventory.Error) {
	var messages []string
	for _, e := range errs {
		messages = append(messages, e.Error())
	}
	added, gone := b.looks.change(messages)
	for _, m := range added {
		b.log.Warn("could not look", "err", m)
	}
	for _, m := range gone {
		b.log.Info("can look again", "was", m)
	}
}

// writeFailed counts a failed write and logs it once, with the webhook that
// blocked it.
func (b *board) writeFailed(err error) {
	b.writeErrors.Inc()
	b.say(&b.writes, "could not write to the cluster; metrics go on", err)
}

func (b *board) writeMended() {
	b.say(&b.writes, "could not write to the cluster", nil)
}

// reviewed logs, once, that it could not be asked who may scrape, and once that
// it can again.
func (b *board) reviewed(err error) {
	const message = "could not ask who may scrape; those known go on"
	b.say(&b.reviews, message, err)
}

// clientCA logs the same of the bundle that client certificates are verified
// with.
func (b *board) clientCA(err error) {
	const message = "could not read the CA of client certificates; tokens go on"
	b.say(&b.cas, message, err)
}

func (b *board) say(before *said, message string, err error) {
	if err == nil {
		if _, gone := before.change(nil); len(gone) > 0 {
			b.log.Info("it works again", "was", message)
		}
		return
	}
	blocker := operator.Blocker(err)
	if added, _ := before.change([]string{blocker}); len(added) > 0 {
		b.log.Warn(message, "err", err, "webhook", blocker)
	}
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
