package alerts

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// TestWatchers breaks what watches the webhooks, one thing after the other, and
// then, while everything is quiet, the conversion of an unused CRD.
func TestWatchers(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, cluster.Options{WithoutControllers: true}) // which would use every CRD
	s := newScenario(t, w, "seldom")
	s.install(t)
	auditors, stop := w.auditors(t)
	stack := w.watch(t, timeScale, monitoring.Targets{
		Auditors: append(slices.Clone(auditors), blindAuditor(t)),
		Without:  "apiserver_admission_.+",
	}, "")
	becomes := func(want ...string) {
		t.Helper()
		begun := time.Now()
		eventually(t, func(ctx context.Context) error { return stack.has(ctx, want...) })
		t.Logf("%q after %.0f s", want, time.Since(begun).Seconds())
	}

	// Three series of kube-controller-manager are missing all the time.
	noControllers := []string{"WebhookInputMetricsMissing", "WebhookInputMetricsMissing", "WebhookInputMetricsMissing"}
	becomes(append([]string{"WebhookAuditorStale", "WebhookInputMetricsMissing"}, noControllers...)...)
	testenv.Must(t, stack.Scrape(t.Context(), monitoring.Targets{Auditors: auditors}))
	becomes(noControllers...)

	stop()
	becomes("WebhookAuditorDown")
	auditors, _ = w.auditors(t)
	testenv.Must(t, stack.Scrape(t.Context(), monitoring.Targets{Auditors: auditors}))
	becomes(noControllers...)

	s.Hooks.Behave(s.path(), webhook.Behaviour{FailEvery: 1})
	for range 3 {
		if err := s.readWidget(t.Context(), 0); err == nil {
			t.Fatal("the conversion does not fail")
		}
	}
	becomes(append([]string{"WebhookConversionFailing"}, noControllers...)...)
	s.Hooks.Behave(s.path(), webhook.Behaviour{})
	testenv.Must(t, s.readWidget(t.Context(), 0))
	becomes(noControllers...)
}

// TestOutageWithoutAuditor stops the auditors in the middle of an outage: its page
// is neither resolved nor sent anew, for as long as findings are kept,
// nor when the auditors are back.
func TestOutageWithoutAuditor(t *testing.T) {
	t.Parallel()
	outage := incident{
		name:       "outage",
		active:     []string{"WebhookBackendDown"},
		suppressed: []string{"WebhookCallsFailing", "WebhookFailingClosed"},
		page:       "WebhookBackendDown",
	}
	w := newEnvironment(t, cluster.Options{})
	s := newScenario(t, w, outage.name)
	failingClosedOnPods(t, s)
	notified := newReceiver(t)
	targets := monitoring.Targets{Controllers: w.Plane.ControllersURL()}
	var stop func()
	targets.Auditors, stop = w.auditors(t, neverSlow(t, s.webhook()))
	stack := w.watch(t, timeScale, targets, notified.URL)
	eventually(t, func(ctx context.Context) error { return stack.called(ctx, 1) })

	testenv.Must(t, removeEndpoints(t.Context(), s))
	each(t, stack, []incident{outage}, fires)
	began := stack.one(t, outage.page)
	same := func() {
		if now := stack.one(t, outage.page); now.Fingerprint != began.Fingerprint || !now.StartsAt.Equal(began.StartsAt) {
			t.Fatalf("the page was %v since %s and is %v since %s", began.Labels, began.StartsAt, now.Labels, now.StartsAt)
		}
	}

	stop()
	eventually(t, func(ctx context.Context) error {
		same()
		return errors.Join(stack.fires(ctx, "WebhookAuditorDown"), stack.withoutAuditor(ctx, 45*time.Minute))
	})
	targets.Auditors, _ = w.auditors(t, neverSlow(t, s.webhook()))
	testenv.Must(t, stack.Scrape(t.Context(), targets))
	eventually(t, func(ctx context.Context) error {
		same()
		return stack.has(ctx, "WebhookBackendDown", "WebhookCallsFailing", "WebhookFailingClosed")
	})
	each(t, stack, []incident{outage}, fires)
	testenv.Must(t, notified.resolvedTimes(outage, 0))
	testenv.Must(t, restoreEndpoints(t.Context(), s))
	eventually(t, stack.quiet)
	testenv.Must(t, notified.pagedOnce(outage))
	eventually(t, func(context.Context) error { return notified.resolvedTimes(outage, 1) })
}

func fires(_ context.Context, i incident, alerts []monitoring.Alert) error { return i.fires(alerts) }

// withoutAuditor wants no auditor to have been scraped for so long.
func (s alerting) withoutAuditor(ctx context.Context, span time.Duration) error {
	found, err := s.Query(ctx, fmt.Sprintf(`time() - max(last_over_time(webhook_auditor_snapshot_timestamp_seconds[1h])) > %f`, scaled(span).Seconds()))
	if err == nil && len(found) == 0 {
		err = errors.New("an auditor was scraped not long ago")
	}
	return err
}

// blindAuditor runs an auditor that reaches no API server, until the end of the
// test, and returns where it is.
func blindAuditor(t *testing.T) string {
	t.Helper()
	ports, err := process.FreePorts(1)
	testenv.Must(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	testenv.Must(t, cluster.WriteKubeconfig(kubeconfig, &rest.Config{Host: fmt.Sprintf("http://127.0.0.1:%d", ports[0])}))
	a, err := auditor.Launch(auditor.Options{Binary: testenv.Binary(t), Kubeconfig: kubeconfig})
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, a.Stop()) })
	return a.URL
}
