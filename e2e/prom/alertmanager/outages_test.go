// Package alertmanager tests what people are notified of in outages: the alerts that
// fire in them go through the dispatcher, the inhibitor and the notification pipeline
// of the Alertmanager that the end-to-end tests run, with rules/alertmanager.yaml, in
// hours of virtual time.
package alertmanager

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/dispatch"
	"github.com/prometheus/alertmanager/featurecontrol"
	"github.com/prometheus/alertmanager/inhibit"
	"github.com/prometheus/alertmanager/nflog"
	"github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/alertmanager/provider/mem"
	"github.com/prometheus/alertmanager/silence"
	"github.com/prometheus/alertmanager/timeinterval"
	"github.com/prometheus/alertmanager/types"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
)

const (
	// fired are the alerts of each outage; the test of the rules writes it.
	fired = "../../../rules/testdata/outages.json"
	// routed is the configuration that users take over.
	routed = "../../../rules/alertmanager.yaml"
)

// resend is how often Prometheus sends what fires, which is valid for four times that.
const resend = time.Minute

// A notice is an alert that fires from a time until another.
type notice struct {
	Labels   model.LabelSet `json:"labels"`
	From, To string
}

// A notification is what a receiver gets of a group of alerts.
type notification struct {
	receiver, group string
	firing          []string
	at              time.Duration
}

// pager keeps what receivers are notified of.
type pager struct {
	receiver string
	begun    time.Time
	mu       *sync.Mutex
	sent     *[]notification
}

func (p pager) SendResolved() bool { return true }

func (p pager) Notify(ctx context.Context, alerts ...*types.Alert) (bool, error) {
	group, _ := notify.GroupKey(ctx)
	n := notification{receiver: p.receiver, group: group, at: time.Since(p.begun)}
	for _, a := range alerts {
		if !a.Resolved() {
			n.firing = append(n.firing, a.Name())
		}
	}
	slices.Sort(n.firing)
	p.mu.Lock()
	defer p.mu.Unlock()
	*p.sent = append(*p.sent, n)
	return false, nil
}

// TestOutages: an outage pages once and opens no ticket beside, whichever alerts fire in
// it and however long; what is notified again while it lasts is the same group.
func TestOutages(t *testing.T) {
	text, err := os.ReadFile(fired)
	must(t, err)
	var outages map[string][]notice
	must(t, json.Unmarshal(text, &outages))
	if len(outages) < 6 {
		t.Fatalf("%d outages", len(outages))
	}
	for name, notices := range outages {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := notified(t, notices)
				opened := opened(sent)
				if len(opened) != 1 || opened["page"] != 1 {
					t.Errorf("opened %v by %v", opened, sent)
				}
			})
		})
	}
}

// opened counts by receiver how often a group of alerts began to fire that did not.
func opened(sent []notification) map[string]int {
	out, fires := map[string]int{}, map[string]bool{}
	for _, n := range sent {
		key := n.receiver + n.group
		if len(n.firing) > 0 && !fires[key] {
			out[n.receiver]++
		}
		fires[key] = len(n.firing) > 0
	}
	return out
}

// notified is what receivers get of the alerts, and in the three hours after the last
// one has ended.
func notified(t *testing.T, notices []notice) []notification {
	t.Helper()
	var (
		mu    sync.Mutex
		sent  []notification
		begun = time.Now()
	)
	alerts := start(t, func(receiver string) notify.Notifier { return pager{receiver, begun, &mu, &sent} })
	end := time.Duration(0)
	for _, n := range notices {
		end = max(end, duration(t, n.To))
	}
	for at := time.Duration(0); at <= end+3*time.Hour; at += resend / 2 {
		for _, n := range notices {
			if a := n.sent(t, begun, at); a != nil {
				must(t, alerts.Put(t.Context(), a))
			}
		}
		time.Sleep(resend / 2)
	}
	mu.Lock()
	defer mu.Unlock()
	return sent
}

// sent is what Prometheus sends of the alert at a time; nil if nothing.
func (n notice) sent(t *testing.T, begun time.Time, at time.Duration) *types.Alert {
	t.Helper()
	from, to := duration(t, n.From), duration(t, n.To)
	if at < from || at > to || at < to && (at-from)%resend != 0 {
		return nil
	}
	until := begun.Add(at + 4*resend)
	if at == to {
		until = begun.Add(to)
	}
	return &types.Alert{Alert: model.Alert{Labels: n.Labels, StartsAt: begun.Add(from), EndsAt: until}, UpdatedAt: time.Now()}
}

// start runs what an Alertmanager runs, with receivers of the test, until the test ends.
func start(t *testing.T, receiver func(name string) notify.Notifier) *mem.Alerts {
	t.Helper()
	conf, err := config.LoadFile(routed)
	must(t, err)
	logger, registry := promslog.NewNopLogger(), prometheus.NewRegistry()
	marker := types.NewMarker(registry)
	ctx, cancel := context.WithCancel(t.Context())
	alerts, err := mem.NewAlerts(ctx, marker, time.Minute, 0, nil, logger, registry, featurecontrol.NoopFlags{})
	must(t, err)
	silences, err := silence.New(silence.Options{Retention: time.Hour, Metrics: registry})
	must(t, err)
	log, err := nflog.New(nflog.Options{Retention: 120 * time.Hour, Metrics: registry})
	must(t, err)
	receivers := map[string][]notify.Integration{}
	for _, r := range conf.Receivers {
		n := receiver(r.Name).(pager)
		receivers[r.Name] = []notify.Integration{notify.NewIntegration(n, n, "test", 0, r.Name)}
	}
	inhibitor := inhibit.NewInhibitor(alerts, conf.InhibitRules, marker, logger)
	pipeline := notify.NewPipelineBuilder(registry, featurecontrol.NoopFlags{}).New(receivers, func() time.Duration { return 0 },
		inhibitor, silence.NewSilencer(silences, marker, logger), timeinterval.NewIntervener(nil), marker, log, nil)
	dispatcher := dispatch.NewDispatcher(alerts, dispatch.NewRoute(conf.Route, nil), pipeline, marker,
		func(d time.Duration) time.Duration { return max(d, notify.MinTimeout) }, 30*time.Second, nil, logger, dispatch.NewDispatcherMetrics(false, registry))
	go dispatcher.Run(time.Now())
	dispatcher.WaitForLoading()
	go inhibitor.Run()
	inhibitor.WaitForLoading()
	t.Cleanup(func() {
		dispatcher.Stop()
		inhibitor.Stop()
		cancel()
		alerts.Close()
	})
	return alerts
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	must(t, err)
	return d
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
