package timeline

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/alertmanager/alert"
	"github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/dispatch"
	"github.com/prometheus/alertmanager/eventrecorder"
	"github.com/prometheus/alertmanager/featurecontrol"
	"github.com/prometheus/alertmanager/inhibit"
	"github.com/prometheus/alertmanager/marker"
	"github.com/prometheus/alertmanager/nflog"
	"github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/alertmanager/provider/mem"
	"github.com/prometheus/alertmanager/silence"
	"github.com/prometheus/alertmanager/template"
	"github.com/prometheus/alertmanager/timeinterval"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/rules"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// Routes is the configuration of Alertmanager that users take over.
const Routes = "../../../rules/alertmanager.yaml"

// A Notification is what a receiver gets of a group of alerts.
type Notification struct {
	At              time.Duration
	Receiver, Group string
	// New are those that fire and did not in the group's notification before, Over those that
	// did and do not any more, and those of a webhook, or of a name, of which none did.
	New, Over []model.LabelSet
	// Begins says that none did before.
	Begins bool
}

// Notifications are what receivers get of the alerts until three hours after the last one,
// by the dispatcher, the inhibitor and the notification pipeline of Alertmanager.
func Notifications(t *testing.T, sent []Sending) []Notification {
	t.Helper()
	var out []Notification
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(Begin))
		p := &pages{firing: map[string][]model.LabelSet{}}
		alerts := start(t, p)
		for _, s := range sent {
			time.Sleep(s.At - time.Since(Begin))
			if err := alerts.Put(t.Context(), posted(s.Alert)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Hour)
		p.mu.Lock()
		defer p.mu.Unlock()
		out = p.sent
	})
	return out
}

// Notifications are what receivers get of what fired.
func (l *Timeline) Notifications(t *testing.T) []Notification {
	t.Helper()
	return Notifications(t, l.sent)
}

// posted is the alert as Alertmanager's API takes it.
func posted(a *rules.Alert) *alert.Alert {
	out := &alert.Alert{UpdatedAt: time.Now()}
	out.StartsAt, out.EndsAt = a.FiredAt, a.ValidUntil
	if !a.ResolvedAt.IsZero() {
		out.EndsAt = a.ResolvedAt
	}
	out.Labels, out.Annotations = model.LabelSet{}, model.LabelSet{}
	for name, value := range a.Labels.Map() {
		out.Labels[model.LabelName(name)] = model.LabelValue(value)
	}
	for name, value := range a.Annotations.Map() {
		out.Annotations[model.LabelName(name)] = model.LabelValue(value)
	}
	return out
}

// pages keeps what receivers are notified of.
type pages struct {
	mu     sync.Mutex
	firing map[string][]model.LabelSet // by receiver and group
	sent   []Notification
}

// notifier is one receiver.
type notifier struct {
	*pages
	receiver     string
	sendResolved bool
}

func (n notifier) SendResolved() bool { return n.sendResolved }

func (n notifier) Notify(ctx context.Context, alerts ...*alert.Alert) (bool, error) {
	group, _ := notify.GroupKey(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	out := Notification{At: time.Since(Begin), Receiver: n.receiver, Group: group}
	before, firing := n.firing[n.receiver+group], []model.LabelSet{}
	among := func(all []model.LabelSet, a *alert.Alert) bool { return slices.ContainsFunc(all, a.Labels.Equal) }
	isKnown := func(a *alert.Alert) bool {
		return slices.ContainsFunc(before, func(l model.LabelSet) bool {
			return l["name"] == a.Labels["name"] && (l["name"] != "" || l[model.AlertNameLabel] == a.Labels[model.AlertNameLabel])
		})
	}
	for _, a := range alerts {
		switch {
		case a.Resolved() && (among(before, a) || !isKnown(a)):
			out.Over = append(out.Over, a.Labels)
		case !a.Resolved() && !among(before, a):
			out.New = append(out.New, a.Labels)
		}
		if !a.Resolved() {
			firing = append(firing, a.Labels)
		}
	}
	out.Begins = len(before) == 0 && len(firing) > 0
	n.firing[n.receiver+group] = firing
	n.sent = append(n.sent, out)
	return false, nil
}

// start runs what an Alertmanager runs, until the test ends.
func start(t *testing.T, p *pages) *mem.Alerts {
	t.Helper()
	conf := testenv.Get(config.LoadFile(Routes))(t)
	logger, registry, recorder := promslog.NewNopLogger(), prometheus.NewRegistry(), eventrecorder.NopRecorder()
	groups := marker.NewGroupMarker()
	ctx, cancel := context.WithCancel(t.Context())
	alerts := testenv.Get(mem.NewAlerts(ctx, time.Minute, 0, nil, logger, recorder, registry, featurecontrol.NoopFlags{}))(t)
	silences := testenv.Get(silence.New(silence.Options{Retention: time.Hour, Metrics: registry}))(t)
	log := testenv.Get(nflog.New(nflog.Options{Retention: 192 * time.Hour, Metrics: registry}))(t)
	receivers := map[string][]notify.Integration{}
	for _, r := range conf.Receivers {
		n := notifier{p, r.Name, sendsResolved(r)}
		receivers[r.Name] = []notify.Integration{notify.NewIntegration(n, n, "test", 0, r.Name)}
	}
	inhibitor := inhibit.NewInhibitor(alerts, conf.InhibitRules, logger, recorder)
	pipeline := notify.NewPipelineBuilder(registry, featurecontrol.NoopFlags{}, recorder).New(receivers, func() time.Duration { return 0 },
		inhibitor, silence.NewSilencer(silences, logger, recorder), timeinterval.NewIntervener(nil), groups, log, nil)
	dispatcher := dispatch.NewDispatcher(alerts, dispatch.NewRoute(conf.Route, nil), pipeline, groups,
		func(d time.Duration) time.Duration { return max(d, notify.MinTimeout) }, 30*time.Second, nil, logger, recorder, dispatch.NewDispatcherMetrics(false, registry, featurecontrol.NoopFlags{}), nil)
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

// sendsResolved is whether the receiver hears of what is over.
func sendsResolved(r config.Receiver) bool {
	for _, c := range r.EmailConfigs {
		return c.SendResolved()
	}
	return true
}

// Notice is an alert that a page is about, or that is over.
type Notice struct {
	Labels, Annotations model.LabelSet
	Over                bool
}

// PageText is what the page about alerts says.
func PageText(t *testing.T, notices ...Notice) string {
	t.Helper()
	conf := testenv.Get(config.LoadFile(Routes))(t)
	texts := testenv.Get(template.FromGlobs(conf.Templates))(t)
	texts.ExternalURL = &url.URL{}
	var all []*alert.Alert
	for _, one := range notices {
		a := &alert.Alert{}
		a.Labels, a.Annotations, a.StartsAt, a.EndsAt = one.Labels, one.Annotations, time.Now().Add(-2*time.Hour), time.Now().Add(time.Hour)
		if one.Over {
			a.EndsAt = time.Now().Add(-time.Hour)
		}
		all = append(all, a)
	}
	receiver := conf.Receivers[slices.IndexFunc(conf.Receivers, func(r config.Receiver) bool { return r.Name == "page" })]
	page := receiver.PagerdutyConfigs[0]
	return testenv.Get(texts.ExecuteTextString(fmt.Sprint(page.Description, "\n", page.Details["alerts"]), texts.Data("page", notices[0].Labels, nil, "", all...)))(t)
}
