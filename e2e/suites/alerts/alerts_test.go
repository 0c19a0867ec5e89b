package alerts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/timeline"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// incident is trouble with the one webhook of a scenario, and what it must lead to.
type incident struct {
	name string
	// prepares makes the healthy webhook and its users; nil where the webhook
	// is trouble by being there.
	prepares func(t *testing.T, s scenario)
	breaks   func(ctx context.Context, s scenario) error
	// check is what the auditor finds of it, if anything.
	check string
	cures func(ctx context.Context, s scenario) error
	// active are the alerts that notify a receiver, suppressed those that one
	// of these explains. There are no others.
	active, suppressed []string
	// page is the one alert that pages, if any.
	page string
	// webhooks is how many webhooks of the scenario have each of these alerts;
	// 0 stands for one.
	webhooks int
	// resource is the one that this incident alone slows down, if any.
	resource string
	// instance is the API server that this incident is about, if any.
	instance string
}

// incidents are the enhancement's test plan, and all other trouble that an API
// server counts. All happen at once in one cluster: none may be mistaken for
// another.
var incidents = []incident{
	{
		// Each API server counts it, whatever the failurePolicy: the wait is the
		// outage.
		name:     "leases-hang",
		prepares: failingOpenOnLeases,
		breaks:   behave(webhook.Behaviour{Delay: time.Minute}),
		cures:    behave(webhook.Behaviour{}),
		active:   []string{"WebhookCriticalResourceSlow", "WebhookFailingOpen"},
		page:     "WebhookCriticalResourceSlow",
		resource: "leases",
	},
	{
		// One page, and not one for each of them.
		name:       "pods-backend-of-eight",
		prepares:   eightOnPods,
		breaks:     removeEndpoints,
		check:      "no-ready-endpoints",
		cures:      restoreEndpoints,
		active:     []string{"WebhookBackendDown"},
		suppressed: []string{"WebhookCallsFailing", "WebhookFailingClosed"},
		page:       "WebhookBackendDown",
		webhooks:   8,
	},
	{
		// The webhook answers each call, and the API server refuses each request.
		name:       "pods-unusable-patch",
		prepares:   mutatingPods,
		breaks:     behave(webhook.Behaviour{Patch: `[{"op":"remove","path":"/metadata/nothing"}]`}),
		cures:      behave(webhook.Behaviour{}),
		active:     []string{"WebhookFailingClosed"},
		suppressed: []string{"WebhookCallsFailing", "WebhookInternalErrors"},
		page:       "WebhookFailingClosed",
	},
	{
		name:       "admission-open",
		prepares:   failingOpen,
		breaks:     removeService,
		check:      "service-missing",
		cures:      restoreService,
		active:     []string{"WebhookBackendDownWarning"},
		suppressed: []string{"WebhookFailingOpen"},
	},
	{
		name:       "conversion-no-service",
		prepares:   converting,
		breaks:     removeService,
		check:      "service-missing",
		cures:      restoreService,
		active:     []string{"WebhookBackendDown"},
		suppressed: []string{"WebhookConversionFailing"},
		page:       "WebhookBackendDown",
	},
	{
		name:     "slow-elsewhere",
		prepares: onTemplates,
		breaks:   behave(webhook.Behaviour{Delay: 1500 * time.Millisecond}),
		cures:    behave(webhook.Behaviour{}),
		resource: "podtemplates",
		active:   []string{"WebhookResourceLatencyHigh", "WebhookSlow"},
	},
	{
		name:     "refusing",
		prepares: refusingOnce,
		breaks:   behave(webhook.Behaviour{Deny: "no more of these"}),
		cures:    behave(webhook.Behaviour{}),
		active:   []string{"WebhookRejectionsHigh"},
	},
	{
		name:       "match-conditions",
		prepares:   failingClosed,
		breaks:     askOnlyIf(`object.metadata.labels["asked"] == "yes"`),
		cures:      askOnlyIf(`true`),
		active:     []string{"WebhookMatchConditionErrors"},
		suppressed: []string{"WebhookCallsFailing"},
	},
	{
		name:     static,
		prepares: unregistered,
		breaks:   func(_ context.Context, s scenario) error { return s.manifests.add(s) },
		cures:    func(_ context.Context, s scenario) error { return s.manifests.remove(s) },
		active:   []string{"WebhookNotInInventory"},
	},
	{
		// Approval or not: no webhook may intercept what is never stored.
		name:   "virtual",
		breaks: func(ctx context.Context, s scenario) error { return s.register(ctx, s.configuration(bindings)) },
		check:  "virtual-resource",
		cures:  func(ctx context.Context, s scenario) error { return s.unregister(ctx) },
		active: []string{"WebhookOnVirtualResource"},
	},
}

// TestAlerts holds the alerts against a cluster that is first healthy, then has
// every trouble at once, and is cured of all.
func TestAlerts(t *testing.T) {
	t.Parallel()
	manifests, incidents := manifests(t.TempDir()), incidents
	options := cluster.Options{APIServerFlags: manifests.flags(t)}
	if !testenv.StaticManifests.There(t) {
		options.APIServerFlags = nil
		incidents = slices.DeleteFunc(slices.Clone(incidents), func(i incident) bool { return i.name == static })
	}
	w := newEnvironment(t, options)
	w.manifests = manifests
	sites := map[string]scenario{}
	for _, i := range incidents {
		s := newScenario(t, w, i.name)
		s.slow = i.slow()
		sites[i.name] = s
		if i.prepares != nil {
			i.prepares(t, s)
		}
	}
	auditors := w.auditors(t, neverSlow(t, named(false)...))
	prometheus := w.watch(t, append(timeline.Auditors(auditors...), timeline.APIServer(t, w.Plane.Config()), timeline.Controllers(t, w.Plane))...)
	prometheus.isQuick(70*time.Minute, named(true)) // so that one of the alerts knows how seldom a webhook is called
	testenv.Must(t, hadOnly(prometheus.Fired(), nil))

	for _, i := range incidents {
		testenv.Must(t, i.breaks(t.Context(), sites[i.name]))
	}
	prometheus.settles(func(ctx context.Context) error { return finds(ctx, auditors, incidents) })
	if _, there := sites[static]; there {
		prometheus.settles(timeline.APIServer(t, w.Plane.Config()).Says("apiserver_admission_webhook_request_total", metrics.Labels{"name": sites[static].webhook()}))
	}
	prometheus.lasts(80 * time.Minute)

	for _, i := range incidents {
		testenv.Must(t, i.cures(t.Context(), sites[i.name]))
	}
	prometheus.settles(func(ctx context.Context) error { return finds(ctx, auditors, nil) })
	prometheus.isQuick(80*time.Minute, named(true))
	prometheus.fires()
	testenv.Must(t, hadOnly(prometheus.Fired(), incidents))
	notified := prometheus.Notifications(t)
	for _, i := range incidents {
		testenv.Must(t, i.notifies(notified))
	}
}

func (i incident) slow() bool {
	return strings.Contains(strings.Join(slices.Concat(i.active, i.suppressed), " "), "Slow")
}

func (i incident) names() []string {
	s := scenario{name: i.name}
	out := []string{s.webhook(), s.crd()}
	for n := range i.webhooks {
		out = append(out, fmt.Sprintf("w%d.%s", n, s.webhook()))
	}
	return out
}

// named are the webhooks of all incidents that are about latency, or of the others.
func named(slow bool) []string {
	var out []string
	for _, i := range incidents {
		if i.slow() == slow {
			out = append(out, i.names()...)
		}
	}
	return out
}

func (i incident) owns(label func(string) string) bool {
	if instance := label("instance"); instance != "" || i.instance != "" {
		return instance == i.instance
	}
	if name := label("name"); name != "" {
		return slices.Contains(i.names(), name)
	}
	return label("resource") != "" && (label("resource") == i.resource || label("group") == scenario{name: i.name}.group())
}

// each repeats the alerts for each webhook of the incident.
func (i incident) each(alerts []string) []string {
	return slices.Sorted(slices.Values(slices.Repeat(alerts, max(i.webhooks, 1))))
}

// finds wants all auditors to find what these incidents are, and nothing of the others.
func finds(ctx context.Context, auditors []*auditor.Auditor, now []incident) error {
	var failures []error
	for _, a := range auditors {
		found, err := a.Scrape(ctx)
		if err != nil {
			return err
		}
		for _, i := range incidents {
			want := slices.ContainsFunc(now, func(n incident) bool { return n.name == i.name })
			have := slices.ContainsFunc(i.names(), func(name string) bool {
				return len(found.Select("webhook_auditor_finding", metrics.Labels{"check": i.check, "name": name})) > 0
			})
			if i.check != "" && have != want {
				failures = append(failures, fmt.Errorf("%s finds %s: %t, want %t", a.URL, i.name, have, want))
			}
		}
	}
	return errors.Join(failures...)
}

// hadOnly wants that the alerts about these incidents fired, and that no others
// ever did, not even for a short time.
func hadOnly(fired []labels.Labels, incidents []incident) error {
	had := map[string][]string{}
	var failures []error
	for _, f := range fired {
		n := slices.IndexFunc(incidents, func(i incident) bool { return i.owns(f.Get) })
		if n < 0 {
			failures = append(failures, fmt.Errorf("an alert about no incident: %s", f))
			continue
		}
		had[incidents[n].name] = append(had[incidents[n].name], f.Get("alertname"))
	}
	for _, i := range incidents {
		want := i.each(slices.Concat(i.active, i.suppressed))
		if have := slices.Sorted(slices.Values(had[i.name])); !slices.Equal(have, want) {
			failures = append(failures, fmt.Errorf("%s had the alerts %q, want %q", i.name, have, want))
		}
	}
	return errors.Join(failures...)
}

// notifies wants receivers to get each active alert, one page of an incident that deserves one,
// with one alert for each of its webhooks on it, and no ticket twice. Where nothing pages, a
// ticket may begin with what explains less.
func (i incident) notifies(notified []timeline.Notification) error {
	got, begun := map[string][]string{}, map[string]int{}
	for _, n := range notified {
		var names []string
		for _, a := range n.New {
			if i.owns(func(label string) string { return string(a[model.LabelName(label)]) }) {
				names = append(names, string(a[model.AlertNameLabel]))
			}
		}
		got[n.Receiver] = append(got[n.Receiver], names...)
		if n.Begins && len(names) > 0 {
			begun[n.Receiver+n.Group]++
		}
	}
	var page []string
	if i.page != "" {
		page = i.each([]string{i.page})
	}
	if !slices.Equal(got["page"], page) {
		return fmt.Errorf("%s: pages are %q, want %q", i.name, got["page"], page)
	}
	all := slices.Sorted(slices.Values(slices.Concat(got["page"], got["ticket"], got["digest"])))
	if i.page == "" {
		all = slices.DeleteFunc(all, func(name string) bool { return slices.Contains(i.suppressed, name) })
	}
	if want := i.each(i.active); !slices.Equal(all, want) {
		return fmt.Errorf("%s: receivers get %q, want %q", i.name, all, want)
	}
	for group, times := range begun {
		if times > 1 {
			return fmt.Errorf("%s: %s begins %d times", i.name, group, times)
		}
	}
	return nil
}
