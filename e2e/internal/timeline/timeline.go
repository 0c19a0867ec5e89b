// Package timeline evaluates alerts in a time of its own: what real servers export is kept
// scrape by scrape, and Prometheus' rules and Alertmanager's routes see it at the times that a
// test says, however long the machine takes.
package timeline

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/teststorage"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// Tick is how often is scraped and evaluated, as most clusters do.
const Tick = 30 * time.Second

// Resend is how often Prometheus sends what fires.
const Resend = time.Minute

// Begin is when the time of each timeline begins: on the day on which that of testing/synctest
// does, at noon, as some pages wait for the morning.
var Begin = time.Date(2000, time.January, 1, 12, 0, 0, 0, time.UTC)

// Timeline is a Prometheus in a time of its own.
type Timeline struct {
	t       testing.TB
	now     time.Duration
	storage *teststorage.TestStorage
	engine  *promql.Engine
	groups  []*rules.Group
	sent    []Sending

	read     map[string]float64 // what counters were when they were last scraped
	counters map[string]float64 // what they are here
	there    map[string]labels.Labels
	state    []round
}

// A Sending is what Prometheus sends to Alertmanager at a time.
type Sending struct {
	At    time.Duration
	Alert *rules.Alert
}

// New evaluates the rules that the auditor prints, with these flags, until the end of the test.
func New(t testing.TB, flags ...string) *Timeline {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	printed := testenv.Command(t, append([]string{"print", "rules", "--form=prometheus"}, flags...)...)
	testenv.Must(t, os.WriteFile(file, []byte(printed.Stdout), 0o600))
	l := &Timeline{
		t: t, read: map[string]float64{}, counters: map[string]float64{}, there: map[string]labels.Labels{},
		storage: teststorage.New(t, func(o *tsdb.Options) {
			o.MinBlockDuration, o.MaxBlockDuration = (20 * 24 * time.Hour).Milliseconds(), (20 * 24 * time.Hour).Milliseconds()
		}),
		engine: promql.NewEngine(promql.EngineOpts{
			MaxSamples: 50_000_000, Timeout: time.Hour, EnableAtModifier: true, EnableNegativeOffset: true, Parser: parser.NewParser(parser.Options{}),
		}),
	}
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:   rules.EngineQueryFunc(l.engine, l.storage),
		NotifyFunc:  l.keep,
		Appendable:  l.storage,
		Queryable:   l.storage,
		Context:     t.Context(),
		Logger:      promslog.NewNopLogger(),
		Parser:      parser.NewParser(parser.Options{}),
		ResendDelay: Resend,
	})
	byName, errs := manager.LoadGroups(Tick, labels.EmptyLabels(), "", nil, false, file)
	for _, err := range errs {
		t.Fatal(err)
	}
	l.groups = slices.SortedFunc(maps.Values(byName), func(a, b *rules.Group) int { return strings.Compare(a.Name(), b.Name()) })
	for _, g := range l.groups {
		for _, r := range g.AlertingRules() {
			r.SetRestored(true) // has ALERTS written, as a Prometheus does once it runs
		}
	}
	return l
}

// keep keeps what is sent to Alertmanager.
func (l *Timeline) keep(_ context.Context, _ string, alerts ...*rules.Alert) {
	for _, a := range alerts {
		l.sent = append(l.sent, Sending{l.now, a})
	}
}

// Change scrapes what a change has led to: it happens once.
func (l *Timeline) Change(targets ...Target) {
	l.t.Helper()
	l.state = nil
	l.play(l.scrape(targets))
}

// Scrape scrapes, as a part of what the servers do for as long as nothing changes.
func (l *Timeline) Scrape(targets ...Target) {
	l.t.Helper()
	r := l.scrape(targets)
	l.state = append(l.state, r)
	l.play(r)
}

// ScrapeQuick is Scrape, unless a call to one of these webhooks took over half a second, as the
// machine was busy: that happens once, and is no part of what goes on.
func (l *Timeline) ScrapeQuick(webhooks []string, targets ...Target) (quick bool) {
	l.t.Helper()
	r, slow := l.scrape(targets), 0.0
	for _, s := range r {
		switch name := s.labels.Get(model.MetricNameLabel); {
		case !slices.Contains(webhooks, s.labels.Get("name")):
		case name == "apiserver_admission_webhook_admission_duration_seconds_count":
			slow += s.value
		case name == "apiserver_admission_webhook_admission_duration_seconds_bucket" && s.labels.Get("le") == "0.5":
			slow -= s.value
		}
	}
	if slow == 0 {
		l.state = append(l.state, r)
	}
	l.play(r)
	return slow == 0
}

// Repeat has what was scraped since the last change go on for so long, again and again.
func (l *Timeline) Repeat(duration time.Duration) {
	l.t.Helper()
	for n := 0; duration > 0; n, duration = n+1, duration-Tick {
		l.play(l.state[n%len(l.state)])
	}
}

// Now is how long the timeline is.
func (l *Timeline) Now() time.Duration { return l.now }

// play stores a round and evaluates.
func (l *Timeline) play(r round) {
	l.t.Helper()
	now, there := Begin.Add(l.now), map[string]labels.Labels{}
	appender := l.storage.Appender(l.t.Context())
	add := func(series labels.Labels, v float64) {
		if _, err := appender.Append(0, series, now.UnixMilli(), v); err != nil {
			l.t.Fatalf("storing %s: %v", series, err)
		}
	}
	for key, s := range r {
		there[key] = s.labels
		add(s.labels, l.value(key, s, now))
	}
	for key, of := range l.there {
		if there[key].IsEmpty() {
			add(of, math.Float64frombits(value.StaleNaN))
		}
	}
	if err := appender.Commit(); err != nil {
		l.t.Fatal(err)
	}
	l.there = there
	l.evaluate(now)
	l.now += Tick
}

// value is what a series says at a time.
func (l *Timeline) value(key string, s sample, now time.Time) float64 {
	switch s.kind {
	case counter:
		l.counters[key] += s.value
		return l.counters[key]
	case timestamp:
		return float64(now.UnixMilli())/1000 + s.value
	}
	return s.value
}

func (l *Timeline) evaluate(now time.Time) {
	l.t.Helper()
	for _, g := range l.groups {
		if l.now%g.Interval() >= Tick {
			continue
		}
		g.Eval(l.t.Context(), now)
		for _, r := range g.Rules() {
			if err := r.LastError(); err != nil {
				l.t.Fatalf("after %s: evaluating %s: %v", l.now, r.Name(), err)
			}
		}
	}
}

// inhibitor is the alert that only inhibits one of kubernetes-mixin: it goes to no receiver.
const inhibitor = "WebhookErrorsExplained"

// Firing are the alerts that fire now, but for the one that only inhibits.
func (l *Timeline) Firing() []*rules.Alert {
	var out []*rules.Alert
	for _, g := range l.groups {
		for _, r := range g.AlertingRules() {
			if r.Name() == inhibitor {
				continue
			}
			out = append(out, slices.DeleteFunc(r.ActiveAlerts(), func(a *rules.Alert) bool { return a.State != rules.StateFiring })...)
		}
	}
	return out
}

// Fired are all alerts that ever fired, each once, but for the one that only inhibits.
func (l *Timeline) Fired() []labels.Labels {
	out := map[string]labels.Labels{}
	for _, s := range l.sent {
		if s.Alert.Labels.Get("alertname") != inhibitor {
			out[s.Alert.Labels.String()] = s.Alert.Labels
		}
	}
	return slices.Collect(maps.Values(out))
}

// Query is what an expression says now.
func (l *Timeline) Query(expression string) promql.Vector {
	l.t.Helper()
	query, err := l.engine.NewInstantQuery(l.t.Context(), storage.Queryable(l.storage), nil, expression, Begin.Add(l.now-Tick))
	if err != nil {
		l.t.Fatal(err)
	}
	defer query.Close()
	found, err := query.Exec(l.t.Context()).Vector()
	if err != nil {
		l.t.Fatal(fmt.Errorf("asking %s: %w", expression, err))
	}
	return slices.Clone(found)
}
