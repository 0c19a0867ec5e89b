//go:build thanos

package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

const (
	clusters   = 100
	registered = 15 // webhooks of a real cluster

	// scale multiplies the waiting times of alerts and the 30 s between scrapes.
	scale = 1.0 / 3
)

// scaled is a time of production as it is here.
func scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * scale).Round(time.Millisecond)
}

// state is what is wrong with a cluster.
type state int

const (
	healthy  state = iota
	down           // the backend of one webhook is gone
	slow           // one webhook is slow for what it intercepts
	outdated       // its auditor has another version
	drifted        // a webhook has another failurePolicy
	blind          // it has no auditor
)

// states are those of all clusters; the first three clusters are real.
func states() map[string]state {
	all := slices.Concat([]state{healthy, down, slow}, slices.Repeat([]state{down}, 11), slices.Repeat([]state{slow}, 4),
		slices.Repeat([]state{outdated}, 3), slices.Repeat([]state{drifted}, 2), []state{blind})
	out := map[string]state{}
	for n := range clusters {
		s := healthy
		if n < len(all) {
			s = all[n]
		}
		out[fmt.Sprintf("c%03d", n+1)] = s
	}
	return out
}

// leases is the webhook that the incidents are about: leaders wait for it.
const leases = "leases.policy.example.com"

// installed is a real cluster with an auditor.
type installed struct {
	*testenv.Env
	*auditor.Auditor
}

// install runs a cluster whose webhooks are called every second.
func install(t *testing.T, s state) installed {
	t.Helper()
	env := testenv.New(t, cluster.Options{WithoutControllers: true})
	env.Namespace(t, "users")
	policy, leader := env.Backend(t, "policy"), webhook.Backend{Client: env.Kube, Namespace: "leader", Name: "hook", Server: env.Hooks}
	path, flags := "/allow", []string{}
	switch s {
	case down:
		env.Namespace(t, leader.Namespace)
	case slow:
		testenv.Must(t, leader.Create(t.Context()))
		path = "/delay/700ms"
	default:
		testenv.Must(t, leader.Create(t.Context()))
	}
	if s != slow { // however loaded the machine is
		file := filepath.Join(t.TempDir(), "policy.yaml")
		testenv.Must(t, os.WriteFile(file, []byte(`{"latencyThresholds": {"`+leases+`": 10}}`), 0o600))
		flags = append(flags, "--config="+file)
	}
	hooks := []admissionv1.ValidatingWebhook{usersHook(leader, leases, path, testenv.Rule("coordination.k8s.io", "leases"))}
	for n := 1; n < registered; n++ {
		hooks = append(hooks, usersHook(policy, fmt.Sprintf("w%02d.policy.example.com", n), "/allow", testenv.Rule("", "configmaps")))
	}
	env.Validate(t, "policy", hooks...)
	go call(t.Context(), env)
	return installed{env, env.Run(t, flags...)}
}

// usersHook is a webhook that is called for the requests of users.
func usersHook(b webhook.Backend, name, path string, rule admissionv1.RuleWithOperations) admissionv1.ValidatingWebhook {
	h := testenv.Hook(b, path, rule)
	h.Name = name
	h.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "users"}}
	return h
}

// call makes requests that all webhooks are called for; the API server counts what
// becomes of them.
func call(ctx context.Context, env *testenv.Env) {
	for ctx.Err() == nil {
		name := metav1.ObjectMeta{GenerateName: "user-"}
		_, _ = env.Kube.CoreV1().ConfigMaps("users").Create(ctx, &corev1.ConfigMap{ObjectMeta: name}, testenv.DryRun)
		_, _ = env.Kube.CoordinationV1().Leases("users").Create(ctx, &coordinationv1.Lease{ObjectMeta: name}, testenv.DryRun)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// sources are the auditor's series and the API server's.
func (i installed) sources() []source {
	return []source{
		func(ctx context.Context) (io.ReadCloser, error) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, i.URL+"/metrics", nil)
			if err != nil {
				return nil, err
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return nil, err
			}
			return response.Body, nil
		},
		func(ctx context.Context) (io.ReadCloser, error) {
			return i.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").Stream(ctx)
		},
	}
}

// scraped is the scrape configuration for the auditor and the API server.
func (i installed) scraped(t *testing.T) []object {
	t.Helper()
	dir, admin := t.TempDir(), i.Plane.Config()
	for name, data := range map[string][]byte{"ca": admin.CAData, "crt": admin.CertData, "key": admin.KeyData} {
		testenv.Must(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	return []object{
		{"job_name": "webhook-auditor", "static_configs": targets(i.URL)},
		{
			"job_name": "apiserver", "scheme": "https", "static_configs": targets(admin.Host),
			"tls_config":             object{"ca_file": filepath.Join(dir, "ca"), "cert_file": filepath.Join(dir, "crt"), "key_file": filepath.Join(dir, "key")},
			"metric_relabel_configs": []object{{"source_labels": []string{"__name__"}, "regex": monitoring.OfAPIServer, "action": "keep"}},
		},
	}
}

// simulation are the clusters that are not real, as the real ones are recorded.
func simulation(t *testing.T, real map[state]installed) map[string]simulated {
	t.Helper()
	var sources []source
	order := []state{healthy, down, slow}
	for _, s := range order {
		sources = append(sources, real[s].sources()...)
	}
	recorded, of := record(t, sources, 20*time.Second), map[state]simulated{}
	for i, s := range order {
		of[s] = simulated{&recorded[2*i], &recorded[2*i+1]}
	}
	old := of[healthy].auditor.replaced(`\bversion="[^"]*"`, `version="0.0.1"`)
	other := of[healthy].auditor.replaced(`failure_policy="Fail"(.*name="w01[.])`, `failure_policy="Ignore"$1`)
	of[outdated], of[drifted], of[blind] = simulated{&old, of[healthy].apiServer}, simulated{&other, of[healthy].apiServer}, simulated{nil, of[healthy].apiServer}
	out := map[string]simulated{}
	for name, s := range states() {
		if name > "c003" {
			out[name] = of[s]
		}
	}
	return out
}

// TestThanos: of 100 clusters in one Thanos, whose webhooks have the same names, the alerts
// that Prometheus evaluates beside each cluster, those of a central Ruler, and both
// together make the same pages, each once, though the simulated clusters have two Prometheus.
func TestThanos(t *testing.T) {
	store := newStore(t)
	real := map[state]installed{}
	for s, name := range map[state]string{healthy: "c001", down: "c002", slow: "c003"} {
		real[s] = install(t, s)
		store.scrapes(t, object{"cluster": name, "replica": "a"}, real[s].scraped(t))
	}
	time.Sleep(30 * time.Second) // calls to record
	scrapes := simulate(t, simulation(t, real))
	store.scrapes(t, object{"prometheus": "simulated", "replica": "a"}, scrapes)
	store.scrapes(t, object{"prometheus": "simulated", "replica": "b"}, scrapes)
	store.start(t)
	want := map[string]int{}
	for name, s := range states() {
		if s == down || s == slow {
			want[name] = 1
		}
	}
	begun := time.Now()
	for name, p := range store.alerting() {
		testenv.EventuallyWithin(t, scaled(30*time.Minute)+3*time.Minute, func() error { return p.paged(want) })
		t.Logf("%s: %d pages after %s", name, len(want), time.Since(begun).Round(time.Second))
	}
	time.Sleep(time.Until(begun.Add(scaled(5 * time.Minute)))) // and no page more
	for name, p := range store.alerting() {
		if err := p.paged(want); err != nil {
			t.Errorf("%s, after a while: %v", name, err)
		}
	}
}
