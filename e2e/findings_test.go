package e2e

import (
	"maps"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/metrics"
)

const (
	finding      = auditor.Prefix + "finding"
	backendReady = auditor.Prefix + "webhook_backend_ready"
	info         = auditor.Prefix + "webhook_info"
)

// watcher is the auditor of a world and the test that looks at it.
type watcher struct {
	*auditor.Auditor
	t *testing.T
}

// watch returns the auditor of a world.
func (w *world) watch(t *testing.T) watcher {
	t.Helper()
	a, err := w.audited()
	must(t, err)
	return watcher{a, t}
}

// sees waits for /metrics to show something and logs how long that took.
func (w watcher) sees(what string, condition metrics.Condition) {
	w.t.Helper()
	delay, err := w.Eventually(w.t.Context(), condition)
	if err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
	w.t.Logf("%s: on /metrics after %.0f ms", what, delay.Seconds()*1000)
}

// finds waits for a finding about the webhook.
func (w watcher) finds(check, severity string, webhook metrics.Labels) {
	w.t.Helper()
	w.sees(check+" appears", metrics.Present(finding, with(webhook, metrics.Labels{"check": check, "severity": severity})))
}

// forgets waits until there is no such finding about the webhook.
func (w watcher) forgets(check string, webhook metrics.Labels) {
	w.t.Helper()
	w.sees(check+" leaves", metrics.Absent(finding, with(webhook, metrics.Labels{"check": check})))
}

// knows waits until the webhook is in the inventory, so that the absence of a
// finding means something.
func (w watcher) knows(webhook metrics.Labels) {
	w.t.Helper()
	w.sees("webhook appears", metrics.Present(info, webhook))
}

// with joins labels.
func with(all ...metrics.Labels) metrics.Labels {
	out := metrics.Labels{}
	for _, labels := range all {
		maps.Copy(out, labels)
	}
	return out
}

// identity is how series name a webhook.
func identity(kind, configuration, name string) metrics.Labels {
	return metrics.Labels{"type": kind, "configuration": configuration, "name": name}
}
