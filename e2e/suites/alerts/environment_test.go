package alerts

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// waitLimit bounds every wait of a test. On a machine that is so loaded that scrapes
// fail, an alert may wait anew.
var waitLimit = time.Duration(slower() * float64(5*time.Minute))

// timeScale makes five minutes of the alerts, their shortest window, nine
// seconds: long enough for several scrapes. On a loaded machine, where a scrape
// takes seconds, they are the longer.
var timeScale = 0.03 * slower()

// slower is by how much the alerts' time must be longer than on an idle machine:
// up to three times, where six processes wait for each processor.
var slower = sync.OnceValue(func() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 1 // not on Linux
	}
	var load float64
	if _, err := fmt.Sscan(string(text), &load); err != nil {
		return 1
	}
	return min(max(load/float64(2*runtime.NumCPU()), 1), 3)
})

func TestMain(m *testing.M) {
	// Tests wait for alerts more than they compute.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err) // unreachable: package testing has this flag
	}
	os.Exit(m.Run())
}

// environment is a control plane and the clients that tests use.
type environment struct {
	*testenv.Env
	manifests manifests // "" where the API server reads none
}

// newEnvironment starts a control plane and a webhook server until the end of the
// test.
func newEnvironment(t testing.TB, o cluster.Options) environment {
	t.Helper()
	return environment{Env: testenv.New(t, o)}
}

// alerting is a running Prometheus with its Alertmanager.
type alerting struct{ *monitoring.Stack }

// auditors runs two auditors, until the end of the test or before, and returns
// where they are.
func (w environment) auditors(t testing.TB, flags ...string) (urls []string, stop func()) {
	t.Helper()
	var running []*auditor.Auditor
	stop = func() {
		for _, a := range running {
			testenv.Must(t, a.Stop())
		}
		running = nil
	}
	t.Cleanup(stop)
	for range 2 {
		a, err := auditor.Start(t.Context(), auditor.Options{Binary: testenv.Binary(t), Kubeconfig: w.Plane.Kubeconfig(), Flags: flags})
		testenv.Must(t, err)
		running, urls = append(running, a), append(urls, a.URL)
	}
	return urls, stop
}

// neverSlow is the flag for a Policy by which these webhooks may take longer than
// they ever do: a test that is not about latency must not see how loaded the
// machine is.
func neverSlow(t testing.TB, webhooks ...string) string {
	t.Helper()
	thresholds := map[string]float64{}
	for _, name := range webhooks {
		thresholds[name] = 10
	}
	policy, err := json.Marshal(map[string]any{"latencyThresholds": thresholds})
	testenv.Must(t, err)
	file := filepath.Join(t.TempDir(), "policy.yaml")
	testenv.Must(t, os.WriteFile(file, policy, 0o600))
	return "--config=" + file
}

// watch runs Prometheus and Alertmanager until the end of the test.
func (w environment) watch(t testing.TB, scale float64, targets monitoring.Targets, notify string) alerting {
	t.Helper()
	binaries, err := programs.Monitoring()
	testenv.Must(t, err)
	stack, err := monitoring.Start(t.Context(), monitoring.Options{
		Binaries:  binaries,
		Auditor:   testenv.Binary(t),
		Routes:    "../../../rules/alertmanager.yaml",
		Notify:    notify,
		TimeScale: scale,
		APIServer: w.Plane.Config(),
		Targets:   targets,
	})
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, stack.Stop()) })
	return alerting{stack}
}

// receiver is who Alertmanager notifies.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	got []notification
}

// notification is what Alertmanager posts to a webhook receiver.
type notification struct {
	Status   string
	Receiver string
	Alerts   []struct {
		Status string
		Labels map[string]string
	}
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var n notification
		if err := json.NewDecoder(request.Body).Decode(&n); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, n)
	}))
	t.Cleanup(r.Close)
	return r
}

// pages are the alerts of each notification that paged for the
// incident.
func (r *receiver) pages(i incident) [][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var pages [][]string
	for _, n := range r.got {
		var names []string
		for _, a := range n.Alerts {
			if n.Receiver == "page" && n.Status == "firing" && i.owns(func(label string) string { return a.Labels[label] }) {
				names = append(names, a.Labels["alertname"])
			}
		}
		if len(names) > 0 {
			slices.Sort(names)
			pages = append(pages, names)
		}
	}
	return pages
}

// resolvedTimes wants so many notifications that the page of the incident is over.
func (r *receiver) resolvedTimes(i incident, want int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, sent := range r.got {
		for _, a := range sent.Alerts {
			if sent.Receiver == "page" && a.Status == "resolved" && a.Labels["alertname"] == i.page && i.owns(func(label string) string { return a.Labels[label] }) {
				n++
			}
		}
	}
	if n != want {
		return fmt.Errorf("%s was resolved %d times, want %d", i.page, n, want)
	}
	return nil
}

// eventually calls try until it returns nil, for at most waitLimit.
func eventually(t testing.TB, try func(context.Context) error) {
	t.Helper()
	testenv.EventuallyWithin(t, waitLimit, func() error { return try(t.Context()) })
}
