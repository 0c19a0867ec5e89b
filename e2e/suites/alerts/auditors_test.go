package alerts

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/timeline"
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
	server := timeline.APIServer(t, w.Plane.Config())
	dropping := server
	dropping.Keep = regexp.MustCompile(`^apiserver_(request|crd_conversion)`)
	prometheus := w.watch(t, append(timeline.Auditors(append(auditors, blindAuditor(t))...), dropping)...)

	// Three series of kube-controller-manager are missing all the time.
	noControllers := slices.Repeat([]string{"WebhookInputMetricsMissing"}, 3)
	prometheus.lasts(time.Hour)
	prometheus.fires(append([]string{"WebhookAuditorStale", "WebhookInputMetricsMissing"}, noControllers...)...)
	prometheus.targets = append(timeline.Auditors(auditors...), server)
	prometheus.lasts(time.Hour)
	prometheus.fires(noControllers...)

	stop()
	prometheus.lasts(time.Hour)
	prometheus.fires("WebhookAuditorDown")
	auditors, _ = w.auditors(t)
	prometheus.targets = append(timeline.Auditors(auditors...), server)
	prometheus.lasts(time.Hour)
	prometheus.fires(noControllers...)

	s.Hooks.Behave(s.path(), webhook.Behaviour{FailEvery: 1})
	for range 3 {
		if err := s.readWidget(t.Context(), 0); err == nil {
			t.Fatal("the conversion does not fail")
		}
	}
	prometheus.lasts(10 * time.Minute)
	prometheus.fires(append([]string{"WebhookConversionFailing"}, noControllers...)...)
	s.Hooks.Behave(s.path(), webhook.Behaviour{})
	testenv.Must(t, s.readWidget(t.Context(), 0))
	prometheus.lasts(time.Hour)
	prometheus.fires(noControllers...)
}

// blindAuditor runs an auditor that reaches no API server, until the end of the
// test.
func blindAuditor(t *testing.T) *auditor.Auditor {
	t.Helper()
	ports, err := process.FreePorts(1)
	testenv.Must(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	testenv.Must(t, cluster.WriteKubeconfig(kubeconfig, &rest.Config{Host: fmt.Sprintf("http://127.0.0.1:%d", ports[0])}))
	a, err := auditor.Launch(auditor.Options{Binary: testenv.Binary(t), Kubeconfig: kubeconfig})
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, a.Stop()) })
	return a
}
