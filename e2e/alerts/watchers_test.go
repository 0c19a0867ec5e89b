package alerts

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/process"
	"github.com/webhook-auditor/webhook-auditor/e2e/webhook"
)

// TestWatchers breaks what watches the webhooks, one thing after the other, and
// then, while everything is quiet, the conversion of a CRD that nobody uses.
func TestWatchers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster.Options{WithoutControllers: true}) // which would use every CRD
	s := newSite(t, w, "seldom")
	s.install(t)
	auditors, stop := w.auditors(t)
	stack := w.watch(t, timeScale, Targets{
		Auditors: append(slices.Clone(auditors), blindAuditor(t)),
		Without:  "apiserver_admission_.+",
	}, "")
	becomes := func(want ...string) {
		t.Helper()
		begun := time.Now()
		eventually(t, func(ctx context.Context) error { return stack.has(ctx, want...) })
		t.Logf("%q after %.0f s", want, time.Since(begun).Seconds())
	}

	// Two series of kube-controller-manager are missing all the time.
	noControllers := []string{"WebhookInputMetricsMissing", "WebhookInputMetricsMissing"}
	becomes("WebhookAuditorStale", "WebhookInputMetricsMissing", "WebhookInputMetricsMissing", "WebhookInputMetricsMissing")
	must(t, stack.Scrape(t.Context(), Targets{Auditors: auditors}))
	becomes(noControllers...)

	stop()
	becomes("WebhookAuditorDown")
	auditors, _ = w.auditors(t)
	must(t, stack.Scrape(t.Context(), Targets{Auditors: auditors}))
	becomes(noControllers...)

	s.hooks.Behave(s.path(), webhook.Behaviour{FailEvery: 1})
	for range 3 {
		if err := s.readWidget(t.Context(), 0); err == nil {
			t.Fatal("the conversion does not fail")
		}
	}
	becomes(append([]string{"WebhookConversionFailing"}, noControllers...)...)
	s.hooks.Behave(s.path(), webhook.Behaviour{})
	must(t, s.readWidget(t.Context(), 0))
	becomes(noControllers...)
}

// blindAuditor runs an auditor that reaches no API server, until the end of the
// test, and returns where it is.
func blindAuditor(t *testing.T) string {
	t.Helper()
	path, err := binary()
	must(t, err)
	ports, err := process.FreePorts(1)
	must(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, cluster.WriteKubeconfig(kubeconfig, &rest.Config{Host: fmt.Sprintf("http://127.0.0.1:%d", ports[0])}))
	a, err := auditor.Launch(auditor.Options{Binary: path, Kubeconfig: kubeconfig})
	must(t, err)
	t.Cleanup(func() { must(t, a.Stop()) })
	return a.URL
}
