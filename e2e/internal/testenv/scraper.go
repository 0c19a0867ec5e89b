package testenv

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
)

// Names of metrics that most tests look at.
const (
	Finding      = auditor.Prefix + "finding"
	BackendReady = auditor.Prefix + "webhook_backend_ready"
	WebhookInfo  = auditor.Prefix + "webhook_info"
)

// Scraper reads /metrics of an auditor for one test.
type Scraper struct {
	*auditor.Auditor
	T testing.TB
}

// Scraper returns a scraper of the auditor that watches the environment, and
// starts that auditor before its first use.
func (e *Env) Scraper(t testing.TB) Scraper {
	t.Helper()
	a := Get(e.watching())(t)
	return Scraper{a, t}
}

// Await waits until /metrics fulfils a condition and logs how long that took.
func (s Scraper) Await(what string, condition metrics.Condition) {
	s.T.Helper()
	delay, err := s.Eventually(s.T.Context(), condition)
	if err != nil {
		s.T.Fatalf("%s: %v\n%s", what, err, s.state())
	}
	s.T.Logf("%s: on /metrics after %.0f ms", what, delay.Seconds()*1000)
}

// state is what an auditor that others started says of itself: how old what it serves
// is, what failed, and its log.
func (s Scraper) state() string {
	m, err := s.Scrape(s.T.Context())
	if err != nil {
		return err.Error()
	}
	age := time.Since(time.Unix(int64(m.Select(auditor.Prefix+"snapshot_timestamp_seconds", nil).Sum()), 0))
	return fmt.Sprintf("a snapshot %s old, %v watch errors; the auditor's log:\n%s", age.Round(time.Second), m.Select(auditor.Prefix+"watch_errors_total", nil).Sum(), s.Output())
}

// AwaitFinding waits for a finding about the webhook.
func (s Scraper) AwaitFinding(check, severity string, webhook metrics.Labels) {
	s.T.Helper()
	s.Await(check+" appears", metrics.Present(Finding, With(webhook, metrics.Labels{"check": check, "severity": severity})))
}

// AwaitNoFinding waits until there is no such finding about the webhook.
func (s Scraper) AwaitNoFinding(check string, webhook metrics.Labels) {
	s.T.Helper()
	s.Await(check+" disappears", metrics.Absent(Finding, With(webhook, metrics.Labels{"check": check})))
}

// AwaitWebhook waits until the webhook is in the inventory, so that the absence
// of a finding means something.
func (s Scraper) AwaitWebhook(webhook metrics.Labels) {
	s.T.Helper()
	s.Await("webhook appears", metrics.Present(WebhookInfo, webhook))
}

// With joins labels.
func With(all ...metrics.Labels) metrics.Labels {
	out := metrics.Labels{}
	for _, labels := range all {
		maps.Copy(out, labels)
	}
	return out
}

// Identity are the labels by which series name a webhook.
func Identity(kind, configuration, name string) metrics.Labels {
	return metrics.Labels{"type": kind, "configuration": configuration, "name": name}
}
