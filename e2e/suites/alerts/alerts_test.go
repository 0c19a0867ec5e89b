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

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// incident is trouble with the one webhook of a scenario, and what it must lead to.
type incident struct {
	name string
	// prepares makes the healthy webhook and its users; nil where the webhook
	// is trouble by being there.
	prepares func(t *testing.T, s scenario)
	breaks   func(ctx context.Context, s scenario) error
	// known says that the API server must have been scraped for an hour before.
	known bool
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
		name:       "admission-no-service",
		prepares:   failingClosedOnPods,
		breaks:     removeService,
		cures:      restoreService,
		active:     []string{"WebhookBackendDown"},
		suppressed: []string{"WebhookCallsFailing", "WebhookFailingClosed"},
		page:       "WebhookBackendDown",
	},
	{
		name:     "admission-tenth",
		prepares: failingClosedForMany,
		breaks:   behave(webhook.Behaviour{FailEvery: 10}),
		cures:    behave(webhook.Behaviour{}),
		active:   []string{"WebhookCallsFailing"},
	},
	{
		name:       "admission-no-endpoints",
		prepares:   failingClosed,
		breaks:     removeEndpoints,
		cures:      restoreEndpoints,
		active:     []string{"WebhookBackendDownWarning"},
		suppressed: []string{"WebhookCallsFailing"},
	},
	{
		name:       "admission-untrusted",
		prepares:   failingClosed,
		breaks:     trust([]byte("no certificate")),
		cures:      trustAgain,
		active:     []string{"WebhookCaBundleInvalidWarning"},
		suppressed: []string{"WebhookCallsFailing"},
	},
	{
		name:       "admission-timeout",
		prepares:   impatient,
		breaks:     behave(webhook.Behaviour{Delay: time.Minute}),
		cures:      behave(webhook.Behaviour{}),
		active:     []string{"WebhookCallsFailing"},
		suppressed: []string{"WebhookSlow"},
	},
	{
		// Each API server counts it, whatever the failurePolicy: the wait is the
		// outage.
		name:       "leases-hang",
		prepares:   failingOpenOnLeases,
		breaks:     behave(webhook.Behaviour{Delay: time.Minute}),
		cures:      behave(webhook.Behaviour{}),
		active:     []string{"WebhookCriticalResourceSlow"},
		suppressed: []string{"WebhookFailingOpen"},
		page:       "WebhookCriticalResourceSlow",
		resource:   "leases",
	},
	{
		name:       "pods-refused",
		prepares:   failingClosedOnPods,
		breaks:     behave(webhook.Behaviour{FailEvery: 1}),
		cures:      behave(webhook.Behaviour{}),
		active:     []string{"WebhookFailingClosed"},
		suppressed: []string{"WebhookCallsFailing"},
		page:       "WebhookFailingClosed",
	},
	{
		// One page, and not one for each of them.
		name:       "pods-backend-of-eight",
		prepares:   eightOnPods,
		breaks:     removeEndpoints,
		cures:      restoreEndpoints,
		active:     []string{"WebhookBackendDown"},
		suppressed: []string{"WebhookCallsFailing", "WebhookFailingClosed"},
		page:       "WebhookBackendDown",
		webhooks:   8,
	},
	{
		// A controller that reconciles every five minutes.
		name:       "pods-refused-now-and-then",
		prepares:   calledInClumps,
		breaks:     behave(webhook.Behaviour{FailEvery: 1}),
		cures:      behave(webhook.Behaviour{}),
		active:     []string{"WebhookFailingClosed"},
		suppressed: []string{"WebhookCallsFailing"},
		page:       "WebhookFailingClosed",
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
		// No call is made at all.
		name:       "pods-match-conditions",
		prepares:   failingClosedOnPods,
		breaks:     askOnlyIf(`object.metadata.annotations["asked"] == "yes"`),
		cures:      askOnlyIf(`true`),
		active:     []string{"WebhookFailingClosed"},
		suppressed: []string{"WebhookCallsFailing", "WebhookMatchConditionErrors"},
		page:       "WebhookFailingClosed",
	},
	{
		name:     "admission-seldom",
		prepares: seldomCalled,
		breaks:   failsThrice,
		known:    true, // or the alert can fire for seconds only
		cures:    answersAgain,
		active:   []string{"WebhookAllCallsFailing"},
	},
	{
		name:       "admission-open",
		prepares:   failingOpen,
		breaks:     removeService,
		cures:      restoreService,
		active:     []string{"WebhookBackendDownWarning"},
		suppressed: []string{"WebhookFailingOpen"},
	},
	{
		name:       "conversion-no-service",
		prepares:   converting,
		breaks:     removeService,
		cures:      restoreService,
		active:     []string{"WebhookBackendDown"},
		suppressed: []string{"WebhookConversionBlocksControllers", "WebhookConversionFailing"},
		page:       "WebhookBackendDown",
	},
	{
		name:     "conversion-tenth",
		prepares: convertingForMany,
		breaks:   behave(webhook.Behaviour{FailEvery: 10}),
		cures:    behave(webhook.Behaviour{}),
		active:   []string{"WebhookConversionFailing"},
	},
	{
		name:       "conversion-no-endpoints",
		prepares:   converting,
		breaks:     removeEndpoints,
		cures:      restoreEndpoints,
		active:     []string{"WebhookBackendDown"},
		suppressed: []string{"WebhookConversionBlocksControllers", "WebhookConversionFailing"},
		page:       "WebhookBackendDown",
	},
	{
		// Controllers that start anew have to read all objects, those of the two
		// others as well.
		name:       "conversion-blocks",
		prepares:   converting,
		breaks:     failAndRestartControllers,
		cures:      behave(webhook.Behaviour{}),
		active:     []string{"WebhookConversionBlocksControllers"},
		suppressed: []string{"WebhookConversionFailing"},
		page:       "WebhookConversionBlocksControllers",
	},
	{
		name:     "conversion-slow",
		prepares: convertingForMany,
		breaks:   behave(webhook.Behaviour{Delay: 1500 * time.Millisecond}),
		cures:    behave(webhook.Behaviour{}),
		active:   []string{"WebhookConversionSlow"},
	},
	{
		name:     "slow-pods",
		prepares: failingClosedOnPods,
		breaks:   behave(webhook.Behaviour{Delay: 700 * time.Millisecond}),
		cures:    behave(webhook.Behaviour{}),
		resource: "pods",
		active:   []string{"WebhookCriticalResourceSlow"},
		page:     "WebhookCriticalResourceSlow",
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
		name:       "patches",
		prepares:   mutating,
		breaks:     behave(webhook.Behaviour{Patch: `[{"op":"remove","path":"/data/nothing"}]`}),
		cures:      behave(webhook.Behaviour{}),
		active:     []string{"WebhookInternalErrors"},
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
		breaks: appear(bindings),
		cures:  disappear,
		active: []string{"WebhookOnVirtualResource"},
		page:   "WebhookOnVirtualResource",
	},
	{
		name:   "virtual-approved",
		breaks: appearApproved(bindings),
		cures:  disappear,
		active: []string{"WebhookOnVirtualResource"},
		page:   "WebhookOnVirtualResource",
	},
	{
		name:   "sensitive",
		breaks: appear(secrets),
		cures:  annotate(approval, "https://example.com/pull/1"),
		active: []string{"WebhookOnSensitiveResource"},
	},
	{
		name:   "sensitive-approved",
		breaks: appearApproved(secrets),
		cures:  disappear,
	},
	{
		name:   "sensitive-acknowledged",
		breaks: appearAcknowledged(secrets, "sensitive-resource"),
		cures:  disappear,
	},
	{
		name:   "critical",
		breaks: appear(pods),
		cures:  annotate(acknowledgement, "critical-resource: it must be so"),
		active: []string{"WebhookOnCriticalResource"},
	},
	{
		name:   "openshift-core",
		breaks: appear(configMaps),
		cures:  annotate(approval, "https://example.com/pull/1"),
		active: []string{"WebhookOnCoreResource"},
	},
}

// TestAlerts holds the alerts against a cluster that is first healthy, then has
// every trouble at once, and is cured of each as soon as its alerts are seen.
func TestAlerts(t *testing.T) {
	t.Parallel()
	manifests, incidents := newManifests(t), incidents
	options := cluster.Options{APIServerFlags: manifests.flags(t)}
	if !testenv.StaticManifests.There(t) {
		options.APIServerFlags = nil
		incidents = slices.DeleteFunc(slices.Clone(incidents), func(i incident) bool { return i.name == static })
	}
	w := newEnvironment(t, options)
	w.manifests = manifests
	sites := map[string]scenario{}
	for _, i := range incidents {
		sites[i.name] = newScenario(t, w, i.name)
		if i.prepares != nil {
			i.prepares(t, sites[i.name])
		}
	}
	notified := newReceiver(t)
	auditors, _ := w.auditors(t, neverSlow(t, quickOnes()...))
	stack := w.watch(t, timeScale, monitoring.Targets{Controllers: w.Plane.ControllersURL(), Auditors: auditors}, notified.URL)

	began := time.Now()
	eventually(t, stack.busy)
	testenv.Must(t, stack.quiet(t.Context()))
	testenv.Must(t, stack.hadOnly(t.Context(), nil))
	t.Logf("healthy for %.0f s", time.Since(began).Seconds())

	broken := map[string]bool{}
	for _, i := range incidents {
		if broken[i.name] = !i.known; broken[i.name] {
			testenv.Must(t, i.breaks(t.Context(), sites[i.name]))
		}
	}
	each(t, stack, incidents, func(ctx context.Context, i incident, alerts []monitoring.Alert) error {
		if !broken[i.name] {
			testenv.Must(t, i.breaksOnce(ctx, stack, sites[i.name], broken))
		}
		if err := errors.Join(i.fires(alerts), notified.pagedOnce(i)); err != nil || len(i.active) == 0 {
			return err
		}
		return i.cures(ctx, sites[i.name])
	})
	for _, i := range incidents {
		if len(i.active) == 0 { // is silent for as long as the others fired
			testenv.Must(t, i.cures(t.Context(), sites[i.name]))
		}
	}
	each(t, stack, incidents, func(_ context.Context, i incident, alerts []monitoring.Alert) error { return i.resolved(alerts) })
	testenv.Must(t, stack.quiet(t.Context()))
	testenv.Must(t, stack.hadOnly(t.Context(), incidents))
	for _, i := range incidents {
		testenv.Must(t, notified.pagedOnce(i))
	}
}

// quickOnes are the webhooks of the incidents that are not about latency.
func quickOnes() []string {
	var out []string
	for _, i := range incidents {
		s := scenario{name: i.name}
		if strings.Contains(strings.Join(append(slices.Clip(i.active), i.suppressed...), " "), "Slow") {
			continue
		}
		out = append(out, s.webhook(), s.crd())
		for n := range i.webhooks {
			out = append(out, fmt.Sprintf("w%d.%s", n, s.webhook()))
		}
	}
	return out
}

// breaksOnce breaks the webhook once the API server was scraped for an hour.
func (i incident) breaksOnce(ctx context.Context, stack alerting, s scenario, broken map[string]bool) error {
	found, err := stack.Query(ctx, fmt.Sprintf(`last_over_time(apiserver_admission_step_admission_duration_seconds_count[%dms] offset %dms)`,
		scaled(5*time.Minute).Milliseconds(), scaled(time.Hour).Milliseconds()))
	if err != nil || len(found) == 0 {
		return err
	}
	broken[i.name] = true
	return i.breaks(ctx, s)
}

// each tries something with every incident until it succeeded once, and logs
// how long that took.
func each(t *testing.T, stack alerting, incidents []incident, try func(context.Context, incident, []monitoring.Alert) error) {
	t.Helper()
	began := time.Now()
	waiting := slices.Clone(incidents)
	eventually(t, func(ctx context.Context) error {
		alerts, err := stack.Alerts(ctx)
		if err != nil {
			return err
		}
		var failures []error
		waiting = slices.DeleteFunc(waiting, func(i incident) bool {
			err := try(ctx, i, alerts)
			if err != nil {
				failures = append(failures, fmt.Errorf("%s: %w", i.name, err))
				return false
			}
			t.Logf("%s after %.0f s", i.name, time.Since(began).Seconds())
			return true
		})
		return errors.Join(failures...)
	})
}

// owns reports whether an alert is about the incident.
func (i incident) owns(label func(string) string) bool {
	if instance := label("instance"); instance != "" || i.instance != "" {
		return instance == i.instance
	}
	s := scenario{name: i.name}
	if name := label("name"); name != "" {
		return name == s.webhook() || name == s.crd() || i.webhooks > 1 && strings.HasSuffix(name, "."+s.webhook())
	}
	return label("resource") != "" && (label("resource") == i.resource || label("group") == s.group())
}

// fires wants the alerts about the incident to be those it leads to, each as
// active or suppressed as it must be.
func (i incident) fires(alerts []monitoring.Alert) error {
	return i.has(alerts, map[string][]string{"active": i.each(i.active), "suppressed": i.each(i.suppressed)})
}

// each repeats the alerts for each webhook of the incident.
func (i incident) each(alerts []string) []string {
	return slices.Sorted(slices.Values(slices.Repeat(alerts, max(i.webhooks, 1))))
}

func (i incident) resolved(alerts []monitoring.Alert) error { return i.has(alerts, nil) }

func (i incident) has(alerts []monitoring.Alert, want map[string][]string) error {
	have := map[string][]string{}
	for _, a := range alerts {
		if i.owns(func(label string) string { return a.Labels[label] }) {
			have[a.Status.State] = append(have[a.Status.State], a.Labels["alertname"])
		}
	}
	for _, state := range []string{"active", "suppressed", "unprocessed"} {
		slices.Sort(have[state])
		if !slices.Equal(have[state], want[state]) {
			return fmt.Errorf("%s are %q, want %q", state, have[state], want[state])
		}
	}
	return nil
}

// called are the calls of the webhooks of the incidents, of either kind.
const called = `
	label_replace(apiserver_admission_webhook_request_total{name=~".+[.]alerts[.]example[.]com"}, "webhook", "$1", "name", "(.+)")
	or label_replace(apiserver_crd_conversion_webhook_duration_seconds_count, "webhook", "$1", "crd_name", "(.+)")`

// busy waits until Prometheus has watched a working cluster for longer than any
// alert waits, 15 minutes and a window of 5, in which webhooks were called.
func (s alerting) busy(ctx context.Context) error {
	watched, err := s.Query(ctx, fmt.Sprintf(`min(count_over_time(up[1h])) >= %d`, int(scaled(20*time.Minute).Seconds())))
	if err != nil {
		return err
	}
	if len(watched) == 0 {
		return errors.New("not all targets were scraped for long enough")
	}
	const enough = 14 // of the incidents have users from the beginning
	busy, err := s.Query(ctx, `sum by (webhook) (`+called+`) > 50`)
	if err != nil {
		return err
	}
	if len(busy) < enough {
		return fmt.Errorf("only %d webhooks were called often: %v", len(busy), busy)
	}
	return nil
}

// quiet wants Alertmanager to have no alerts.
func (s alerting) quiet(ctx context.Context) error { return s.has(ctx) }

// has wants Alertmanager to have alerts of these names, and no others.
func (s alerting) has(ctx context.Context, want ...string) error {
	alerts, err := s.Alerts(ctx)
	if err != nil {
		return err
	}
	have := []string{}
	for _, a := range alerts {
		have = append(have, a.Labels["alertname"])
	}
	slices.Sort(have)
	if !slices.Equal(have, want) {
		return fmt.Errorf("alerts are %q, want %q", have, want)
	}
	return nil
}

// hadOnly wants that the alerts about these incidents fired, and that no others
// ever did, not even for a short time.
func (s alerting) hadOnly(ctx context.Context, incidents []incident) error {
	found, err := s.Query(ctx, `count by (alertname, name, group, resource, instance) (last_over_time(ALERTS{alertstate="firing"}[1d]))`)
	if err != nil {
		return err
	}
	had := map[string][]string{}
	var failures []error
	for _, f := range found {
		label := func(name string) string { return string(f.Metric[model.LabelName(name)]) }
		n := slices.IndexFunc(incidents, func(i incident) bool { return i.owns(label) })
		if n < 0 {
			failures = append(failures, fmt.Errorf("an alert about no incident: %s", f.Metric))
			continue
		}
		had[incidents[n].name] = append(had[incidents[n].name], label("alertname"))
	}
	for _, i := range incidents {
		want := i.each(slices.Concat(i.active, i.suppressed))
		if have := slices.Sorted(slices.Values(had[i.name])); !slices.Equal(have, want) {
			failures = append(failures, fmt.Errorf("%s had the alerts %q, want %q", i.name, have, want))
		}
	}
	return errors.Join(failures...)
}

// pagedOnce wants exactly one page about an incident that deserves one, with
// one alert for each of its webhooks on it.
func (r *receiver) pagedOnce(i incident) error {
	var want [][]string
	if i.page != "" {
		want = [][]string{i.each([]string{i.page})}
	}
	if pages := r.pages(i); !slices.EqualFunc(pages, want, slices.Equal) {
		return fmt.Errorf("%s: pages are %q, want %q", i.name, pages, want)
	}
	return nil
}
