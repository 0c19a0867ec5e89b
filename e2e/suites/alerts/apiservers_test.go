package alerts

import (
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/timeline"
)

// TestOneAPIServer has one of three API servers reach no webhook. What fires names it.
func TestOneAPIServer(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, cluster.Options{})
	tunnel, flag := testenv.Tunnel(t)
	second, third := w.join(t), w.join(t, flag)
	pages, opens := newScenario(t, w, "pages"), newScenario(t, w, "opens")
	failingClosedOnPods(t, pages)
	failingOpen(t, opens)
	for _, other := range []*rest.Config{second, third} {
		pages.traffic(2, pages.via(t, other).touches("pods"))
		opens.traffic(1, opens.via(t, other).createConfigMap)
	}
	auditors := w.auditors(t, neverSlow(t, pages.webhook(), opens.webhook()))
	prometheus := w.watch(t, append(timeline.Auditors(auditors...), timeline.APIServer(t, w.Plane.Config()), timeline.APIServer(t, second), timeline.APIServer(t, third), timeline.Controllers(t, w.Plane))...)
	prometheus.lasts(time.Hour)
	prometheus.fires()

	instance := monitoring.Address(third.Host)
	tunnel.Lose()
	prometheus.lasts(20 * time.Minute)
	prometheus.fires("WebhookNoneReachable")
	if text, label := prometheus.one("WebhookNoneReachable"); label("instance") != instance || !strings.Contains(text, instance) {
		t.Errorf("the API server is %s, not %s: %s", instance, label("instance"), text)
	}
	tunnel.Restore()
	prometheus.lasts(time.Hour)
	prometheus.fires()

	notified := prometheus.Notifications(t)
	cutOff := incident{instance: instance, active: []string{"WebhookNoneReachable"}, page: "WebhookNoneReachable"}
	testenv.Must(t, hadOnly(prometheus.Fired(), []incident{cutOff}))
	testenv.Must(t, cutOff.notifies(notified))
}

func (w environment) join(t *testing.T, flags ...string) *rest.Config {
	t.Helper()
	return testenv.Get(w.Plane.Join(t.Context(), flags...))(t)
}

// via is the same scenario, with requests to another API server.
func (s scenario) via(t *testing.T, config *rest.Config) scenario {
	t.Helper()
	client := testenv.Get(kubernetes.NewForConfig(config))(t)
	objects := testenv.Get(dynamic.NewForConfig(config))(t)
	other := *s.Env
	other.Kube, other.Dynamic = client, objects
	s.environment = environment{Env: &other, manifests: s.manifests, users: s.environment.users}
	return s
}
