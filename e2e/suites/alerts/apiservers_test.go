package alerts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/proxy"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// TestOneAPIServer has one of three API servers reach no webhook, and then all but
// one. What fires names that API server.
func TestOneAPIServer(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, cluster.Options{})
	tunnel := newTunnel(t)
	second, third := w.join(t), w.join(t, tunnelFlag(t, tunnel))
	pages, opens := newScenario(t, w, "pages"), newScenario(t, w.withWebhookServer(t), "opens")
	failingClosedOnPods(t, pages)
	failingOpen(t, opens)
	for _, other := range []*rest.Config{second, third} {
		pages.via(t, other).traffic(t, 2, pages.via(t, other).touchPod)
		opens.via(t, other).traffic(t, 1, opens.via(t, other).createConfigMap)
	}
	notified := newReceiver(t)
	auditors, _ := w.auditors(t, neverSlow(t, pages.webhook(), opens.webhook()))
	stack := w.watch(t, timeScale, monitoring.Targets{APIServers: []string{second.Host, third.Host}, Controllers: w.Plane.ControllersURL(), Auditors: auditors}, notified.URL)
	eventually(t, func(ctx context.Context) error { return stack.called(ctx, 6) })
	testenv.Must(t, stack.quiet(t.Context()))

	instance := monitoring.Address(third.Host)
	tunnel.Lose(func(string) bool { return true })
	eventually(t, func(ctx context.Context) error { return stack.has(ctx, "WebhookNoneReachable") })
	alert := stack.one(t, "WebhookNoneReachable")
	if alert.Labels["instance"] != instance || !strings.Contains(alert.Annotations["summary"], instance) {
		t.Errorf("the API server is %s, the alert %v: %s", instance, alert.Labels, alert.Annotations["summary"])
	}
	pages.runbookShows(t, third)
	tunnel.Restore()
	eventually(t, stack.quiet)

	address := fmt.Sprintf("127.0.0.1:%d", pages.Hooks.Port())
	tunnel.Lose(func(to string) bool { return to == address })
	eventually(t, func(ctx context.Context) error { return stack.has(ctx, "WebhookCallsFailing", "WebhookFailingClosed") })
	if text := stack.one(t, "WebhookFailingClosed").Annotations["description"]; !strings.Contains(text, "Only calls of "+instance+" fail") {
		t.Errorf("the API server %s is not named: %s", instance, text)
	}
	tunnel.Restore()
	eventually(t, stack.quiet)
	testenv.Must(t, stack.hadOnly(t.Context(), []incident{
		{name: "pages", active: []string{"WebhookFailingClosed"}, suppressed: []string{"WebhookCallsFailing"}},
		{instance: instance, active: []string{"WebhookNoneReachable"}},
	}))
	testenv.Must(t, notified.pagedOnce(incident{name: "pages", page: "WebhookFailingClosed"}))
	testenv.Must(t, notified.pagedOnce(incident{instance: instance, page: "WebhookNoneReachable"}))
}

func newTunnel(t *testing.T) *proxy.Tunnel {
	t.Helper()
	tunnel, err := proxy.StartTunnel(filepath.Join(t.TempDir(), "tunnel"))
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, tunnel.Close()) })
	return tunnel
}

// tunnelFlag has an API server reach webhooks through the tunnel.
func tunnelFlag(t *testing.T, tunnel *proxy.Tunnel) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "egress.yaml")
	testenv.Must(t, os.WriteFile(file, fmt.Appendf(nil, `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      uds:
        udsName: %s
`, tunnel.Socket), 0o600))
	return "--egress-selector-config-file=" + file
}

// join starts a further API server until the end of the test.
func (w environment) join(t *testing.T, flags ...string) *rest.Config {
	t.Helper()
	config, err := w.Plane.Join(t.Context(), flags...)
	testenv.Must(t, err)
	return config
}

// withWebhookServer is the same environment with another webhook server.
func (w environment) withWebhookServer(t *testing.T) environment {
	t.Helper()
	hooks, err := webhook.Start()
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, hooks.Close()) })
	other := *w.Env
	other.Hooks = hooks
	return environment{Env: &other, manifests: w.manifests}
}

// via is the same scenario, with requests to another API server.
func (s scenario) via(t *testing.T, config *rest.Config) scenario {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	testenv.Must(t, err)
	other := *s.Env
	other.Kube = client
	s.environment = environment{Env: &other, manifests: s.manifests}
	return s
}

// called wants so many pairs of an API server and a webhook of which calls are
// counted.
func (s alerting) called(ctx context.Context, pairs int) error {
	found, err := s.Query(ctx, `count by (instance, name) (apiserver_admission_webhook_request_total{code="200"})`)
	if err == nil && len(found) != pairs {
		err = fmt.Errorf("webhooks are called by %v", found)
	}
	return err
}

// one is the alert of the name.
func (s alerting) one(t *testing.T, name string) monitoring.Alert {
	t.Helper()
	alerts, err := s.Alerts(t.Context())
	testenv.Must(t, err)
	for _, a := range alerts {
		if a.Labels["alertname"] == name {
			return a
		}
	}
	t.Fatalf("there is no alert %s among %v", name, alerts)
	return monitoring.Alert{}
}

// runbookShows types what the runbook has one ask an API server: it counts
// failures of calls, and the first API server counts none.
func (s scenario) runbookShows(t *testing.T, failing *rest.Config) {
	t.Helper()
	const file = "../../../rules/runbooks/WebhookNoneReachable.md"
	command := commands(t, file, "Diagnosis")[0]
	sh := s.shell(t, file)
	for config, want := range map[*rest.Config]bool{s.Plane.Config(): false, failing: true} {
		sh.env = append(sh.env, "INSTANCE="+monitoring.Address(config.Host)) // the last one counts
		output, err := sh.run(t.Context(), command)
		testenv.Must(t, err)
		if got := strings.Contains(output, `rejection_count{error_type="calling_webhook_error",name="`+s.webhook()); got != want {
			t.Errorf("%s at %s shows failures: %t, want %t\n%s", command, config.Host, got, want, output)
		}
	}
}
