package alerts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/webhook"
)

// incident is trouble with the one webhook of a site, and what it must lead to.
type incident struct {
	name string
	// prepares makes the healthy webhook and its users; nil where the webhook
	// is trouble by being there.
	prepares func(t *testing.T, s site)
	breaks   func(ctx context.Context, s site) error
	cures    func(ctx context.Context, s site) error
	// alerts are those that reach Alertmanager: the alert and what it is about.
	alerts []string
	// page is the one alert that wakes somebody up, if any.
	page string
}

// incidents are the enhancement's test plan, and a webhook that fails open.
// All happen at once in one cluster: none may be mistaken for another.
var incidents = []incident{
	{
		name:     "admission-no-service",
		prepares: failingClosed,
		breaks:   removeService,
		cures:    restoreService,
		alerts: []string{
			"WebhookBackendDown admission-no-service.alerts.example.com",
			"WebhookFailingClosed admission-no-service.alerts.example.com",
		},
		page: "WebhookBackendDown",
	},
	{
		name:     "admission-tenth",
		prepares: failingClosed,
		breaks:   behave(webhook.Behaviour{FailEvery: 10}),
		cures:    behave(webhook.Behaviour{}),
		alerts:   []string{"WebhookFailingClosed admission-tenth.alerts.example.com"},
		page:     "WebhookFailingClosed",
	},
	{
		name:     "admission-no-endpoints",
		prepares: failingClosed,
		breaks:   removeEndpoints,
		cures:    restoreEndpoints,
		alerts: []string{
			"WebhookBackendDown admission-no-endpoints.alerts.example.com",
			"WebhookFailingClosed admission-no-endpoints.alerts.example.com",
		},
		page: "WebhookBackendDown",
	},
	{
		name:     "admission-open",
		prepares: failingOpen,
		breaks:   removeService,
		cures:    restoreService,
		alerts: []string{
			"WebhookBackendDownFailOpen admission-open.alerts.example.com",
			"WebhookFailingOpen admission-open.alerts.example.com",
		},
	},
	{
		name:     "conversion-no-service",
		prepares: converting,
		breaks:   removeService,
		cures:    restoreService,
		alerts: []string{
			"WebhookBackendDown widgets.conversion-no-service.example.com",
			"WebhookConversionFailing widgets.conversion-no-service.example.com",
		},
		page: "WebhookBackendDown",
	},
	{
		name:     "conversion-tenth",
		prepares: converting,
		breaks:   behave(webhook.Behaviour{FailEvery: 10}),
		cures:    behave(webhook.Behaviour{}),
		alerts:   []string{"WebhookConversionFailing widgets.conversion-tenth.example.com"},
	},
	{
		name:     "conversion-no-endpoints",
		prepares: converting,
		breaks:   removeEndpoints,
		cures:    restoreEndpoints,
		alerts: []string{
			"WebhookBackendDown widgets.conversion-no-endpoints.example.com",
			"WebhookConversionFailing widgets.conversion-no-endpoints.example.com",
		},
		page: "WebhookBackendDown",
	},
	{
		name:     "slow-pods",
		prepares: onPods,
		breaks:   behave(webhook.Behaviour{Delay: 700 * time.Millisecond}),
		cures:    behave(webhook.Behaviour{}),
		alerts: []string{
			"WebhookCriticalResourceSlow slow-pods.alerts.example.com",
			"WebhookResourceLatencyHigh pods",
		},
		page: "WebhookCriticalResourceSlow",
	},
	{
		name:     "slow-elsewhere",
		prepares: onTemplates,
		breaks:   behave(webhook.Behaviour{Delay: 1500 * time.Millisecond}),
		cures:    behave(webhook.Behaviour{}),
		alerts: []string{
			"WebhookResourceLatencyHigh podtemplates",
			"WebhookSlow slow-elsewhere.alerts.example.com",
		},
	},
	{
		// Approval or not: nobody may intercept what is never stored.
		name:   "virtual",
		breaks: appear(admissionv1.Rule{APIGroups: []string{""}, Resources: []string{"bindings"}}),
		cures:  disappear,
		alerts: []string{"WebhookOnVirtualResource virtual.alerts.example.com"},
		page:   "WebhookOnVirtualResource",
	},
	{
		name:   "virtual-approved",
		breaks: appearApproved(admissionv1.Rule{APIGroups: []string{""}, Resources: []string{"bindings"}}),
		cures:  disappear,
		alerts: []string{"WebhookOnVirtualResource virtual-approved.alerts.example.com"},
		page:   "WebhookOnVirtualResource",
	},
	{
		name:   "sensitive",
		breaks: appear(admissionv1.Rule{APIGroups: []string{""}, Resources: []string{"secrets"}}),
		cures:  func(ctx context.Context, s site) error { return s.approve(ctx) },
		alerts: []string{"WebhookOnSensitiveResource sensitive.alerts.example.com"},
	},
	{
		name:   "sensitive-approved",
		breaks: appearApproved(admissionv1.Rule{APIGroups: []string{""}, Resources: []string{"secrets"}}),
		cures:  disappear,
	},
}

// TestAlerts holds the alerts against a cluster that is first healthy, then has
// every trouble at once, then is healthy again.
func TestAlerts(t *testing.T) {
	w := newWorld(t)
	sites := map[string]site{}
	for _, i := range incidents {
		s := newSite(t, w, i.name)
		if i.prepares != nil {
			i.prepares(t, s)
		}
		sites[i.name] = s
	}
	told := newReceiver(t)
	stack := w.watch(t, told.URL)

	eventually(t, stack.busy)
	eventually(t, func(ctx context.Context) error { return stack.has(ctx, nil) })
	must(t, stack.hadOnly(t.Context(), nil))

	var want []string
	for _, i := range incidents {
		must(t, i.breaks(t.Context(), sites[i.name]))
		want = append(want, i.alerts...)
	}
	eventually(t, func(ctx context.Context) error { return stack.has(ctx, want) })
	eventually(t, told.everyPage)

	for _, i := range incidents {
		must(t, i.cures(t.Context(), sites[i.name]))
	}
	eventually(t, func(ctx context.Context) error { return stack.has(ctx, nil) })
	must(t, stack.hadOnly(t.Context(), want))
	must(t, told.everyPage(t.Context()))
}

// called are the calls of the webhooks of the incidents, of either kind.
const called = `
	label_replace(apiserver_admission_webhook_request_total{name=~".+[.]alerts[.]example[.]com"}, "webhook", "$1", "name", "(.+)")
	or label_replace(apiserver_crd_conversion_webhook_duration_seconds_count, "webhook", "$1", "crd_name", "(.+)")`

// busy waits until Prometheus has watched a working cluster for longer than any
// alert waits, 15 minutes and a window of 5, in which each webhook was called.
func (s *Stack) busy(ctx context.Context) error {
	watched, err := s.Query(ctx, `min(count_over_time(up[5m])) > 60`)
	if err != nil {
		return err
	}
	if len(watched) == 0 {
		return errors.New("not all targets were scraped for a minute")
	}
	busy, err := s.Query(ctx, `sum by (webhook) (`+called+`) > 100`)
	if err != nil {
		return err
	}
	if want := webhooksWithUsers(); len(busy) != want {
		return fmt.Errorf("%d of %d webhooks were called often: %v", len(busy), want, busy)
	}
	return nil
}

func webhooksWithUsers() int {
	n := 0
	for _, i := range incidents {
		if i.prepares != nil {
			n++
		}
	}
	return n
}

// has wants Alertmanager to have these alerts, and no others.
func (s *Stack) has(ctx context.Context, want []string) error {
	alerts, err := s.Alerts(ctx)
	if err != nil {
		return err
	}
	var have []string
	for _, a := range alerts {
		have = append(have, alertOn(a.Labels["alertname"], a.Labels["name"], a.Labels["resource"]))
	}
	return same(have, want)
}

// hadOnly wants that no alerts but these ever fired.
func (s *Stack) hadOnly(ctx context.Context, want []string) error {
	found, err := s.Query(ctx, `count by (alertname, name, resource) (last_over_time(ALERTS{alertstate="firing"}[1h]))`)
	if err != nil {
		return err
	}
	var had []string
	for _, f := range found {
		had = append(had, alertOn(string(f.Metric["alertname"]), string(f.Metric["name"]), string(f.Metric["resource"])))
	}
	return same(had, want)
}

// alertOn is an alert and what it is about: a webhook, else a resource.
func alertOn(alert, name, resource string) string {
	if name == "" {
		name = resource
	}
	return alert + " " + name
}

func same(have, want []string) error {
	var missing, more []string
	for _, w := range want {
		if !slices.Contains(have, w) {
			missing = append(missing, w)
		}
	}
	for _, h := range have {
		if !slices.Contains(want, h) {
			more = append(more, h)
		}
	}
	if len(missing)+len(more) > 0 {
		return fmt.Errorf("missing alerts: %q, unexpected alerts: %q", missing, more)
	}
	return nil
}

// everyPage wants exactly one page about each incident that deserves one, with
// one alert on it.
func (r *receiver) everyPage(context.Context) error {
	for _, i := range incidents {
		var pages [][]string
		for _, name := range []string{i.name + ".alerts.example.com", "widgets." + i.name + ".example.com"} {
			pages = append(pages, r.pages(name)...)
		}
		var want [][]string
		if i.page != "" {
			want = [][]string{{i.page}}
		}
		if !slices.EqualFunc(pages, want, slices.Equal) {
			return fmt.Errorf("pages about %s: %q, want %q", i.name, pages, want)
		}
	}
	return nil
}
