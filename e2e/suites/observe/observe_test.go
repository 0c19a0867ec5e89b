package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

type observed struct {
	Calls, CallsPerSecond, Failing, Refused, FailedOpen, RefusedCalls, Share float64
	P50Seconds, P99Seconds                                                   float64
	Failures                                                                 map[string]float64
}

type top struct {
	Observed            source
	Webhooks, NotCalled []line
}

type source struct {
	Servers []struct {
		Address  string
		From, To time.Time
	}
	OfServers, Scraped int
}

type line struct {
	Type, Name       string
	Configurations   []string
	ThresholdSeconds float64
	Observed         observed
}

// kind is a webhook that is called for the ConfigMaps with a label, and how it
// behaves. Requests to it are sent by so many clients at once.
type kind struct {
	name, path string
	policy     admissionv1.FailurePolicyType
	clients    int
}

var kinds = []kind{
	{"slow", "/delay/1200ms/observe", admissionv1.Fail, 8},
	{"failing", "/fail-every/1/observe-failing", admissionv1.Fail, 1},
	{"refusing", "/deny/observe", admissionv1.Fail, 1},
	{"open", "/fail-every/1/observe-open", admissionv1.Ignore, 1},
	{"idle", "/allow/observe-idle", admissionv1.Fail, 0},
}

const labelKey = "observe.example.com/webhook"

func (k kind) webhook() string { return k.name + ".observe.example.com" }

// traffic counts the requests that the API server has answered.
type traffic struct {
	pause time.Duration // between two requests of a client, so that all get their turn

	mu       sync.Mutex
	answered map[string][]time.Time
}

// sends sends requests to the webhooks until the end of the test.
func (w environment) sends(t *testing.T, namespace string, kinds []kind, pause time.Duration) *traffic {
	tr := &traffic{pause: pause, answered: map[string][]time.Time{}}
	ctx, stop := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	for _, k := range kinds {
		for range k.clients {
			clients.Go(func() { tr.send(ctx, w, namespace, k) })
		}
	}
	t.Cleanup(func() { stop(); clients.Wait() })
	return tr
}

func (tr *traffic) send(ctx context.Context, w environment, namespace string, k kind) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "observe-", Labels: map[string]string{labelKey: k.name}}}
	for ctx.Err() == nil {
		// The result of a request shows in the counters.
		_, _ = w.Kube.CoreV1().ConfigMaps(namespace).Create(ctx, object, testenv.DryRun)
		if ctx.Err() != nil {
			return
		}
		tr.mu.Lock()
		tr.answered[k.name] = append(tr.answered[k.name], time.Now())
		tr.mu.Unlock()
		select {
		case <-time.After(tr.pause):
		case <-ctx.Done():
		}
	}
}

// countBetween counts the requests that were answered in a span.
func (tr *traffic) countBetween(name string, begin, end time.Time) float64 {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	n := 0.0
	for _, at := range tr.answered[name] {
		if at.After(begin) && at.Before(end) {
			n++
		}
	}
	return n
}

// TestObservedIsWhatWasSent: a slow, a failing, a refusing, an ignored and an
// idle webhook, as top, audit and explain show them.
func TestObservedIsWhatWasSent(t *testing.T) {
	w := environment{stock.UseAlone(t)}
	b := w.Backend(t, "observe")
	w.register(t, b, kinds)
	tr := w.sends(t, b.Namespace, kinds, 20*time.Millisecond)
	kubeconfig := "--kubeconfig=" + w.Plane.Kubeconfig()
	t.Run("commands", func(t *testing.T) {
		t.Run("top", func(t *testing.T) {
			t.Parallel()
			tr.top(t, kubeconfig)
		})
		t.Run("audit", func(t *testing.T) {
			t.Parallel()
			tr.audit(t, kubeconfig)
		})
		t.Run("explain", func(t *testing.T) {
			t.Parallel()
			tr.explain(t, kubeconfig, b.Namespace)
		})
		t.Run("schemas", func(t *testing.T) {
			t.Parallel()
			schemas(t, kubeconfig, b.Namespace)
		})
	})
}

// register registers these webhooks, and waits until the API server calls them.
func (w environment) register(t *testing.T, b webhook.Backend, kinds []kind) {
	t.Helper()
	for _, k := range kinds {
		h := testenv.Hook(b, k.path, testenv.Rule("", "configmaps"))
		h.Name, h.FailurePolicy = k.webhook(), &k.policy
		h.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{labelKey: k.name}}
		w.Validate(t, "observe-"+k.name, h)
	}
	for _, k := range kinds {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "observe-", Labels: map[string]string{labelKey: k.name}}}
		testenv.Eventually(t, func() error {
			_, _ = w.Kube.CoreV1().ConfigMaps(b.Namespace).Create(t.Context(), object, testenv.DryRun)
			if len(w.Hooks.CallsOf(k.path)) == 0 {
				return fmt.Errorf("%s is not called", k.name)
			}
			return nil
		})
	}
}

const span = "--observe-for=15s"

func read(t *testing.T, target any, args ...string) {
	t.Helper()
	result := testenv.Command(t, append(args, "-o", "json", "--observe=apiserver", span)...)
	if err := json.Unmarshal([]byte(result.Stdout), target); err != nil {
		t.Fatalf("%v: %s%s", err, result.Stdout, result.Stderr)
	}
}

// compare holds what was observed of a webhook to what was sent to it.
func (tr *traffic) compare(t *testing.T, name string, o observed, s source) {
	t.Helper()
	from, to := s.Servers[0].From, s.Servers[0].To
	sent := tr.countBetween(name, from, to)
	if sent < 30 {
		t.Errorf("%s: %g requests in %s show nothing", name, sent, to.Sub(from))
	}
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 0.1*math.Max(want, 0.1) {
			t.Errorf("%s: %s is %g, of what was sent %g", name, what, got, want)
		}
	}
	near("calls", o.Calls, sent)
	near("calls a second", o.CallsPerSecond, sent/to.Sub(from).Seconds())
	want := map[string]observed{
		"slow":     {},
		"failing":  {Failing: 1, Failures: map[string]float64{"calling_webhook_error": sent}},
		"refusing": {Refused: 1, RefusedCalls: sent},
		"open":     {Failing: 1, FailedOpen: sent},
	}[name]
	near("failing", o.Failing, want.Failing)
	near("refused", o.Refused, want.Refused)
	near("refused calls", o.RefusedCalls, want.RefusedCalls)
	near("failed open", o.FailedOpen, want.FailedOpen)
	near("calling_webhook_error", o.Failures["calling_webhook_error"], want.Failures["calling_webhook_error"])
	if name == "slow" && o.P50Seconds <= 1 {
		t.Errorf("slow: p50 is %g s, of calls that take 1.2 s and longer", o.P50Seconds)
	}
	t.Logf("%s: %g calls, %g sent, %g a second, p50 %g s, p99 %g s, failing %g, refused %g, share %g", name, o.Calls, sent, o.CallsPerSecond, o.P50Seconds, o.P99Seconds, o.Failing, o.Refused, o.Share)
}

func (tr *traffic) top(t *testing.T, kubeconfig string) {
	var out top
	read(t, &out, "top", kubeconfig)
	if len(out.Webhooks) == 0 || out.Webhooks[0].Name != kinds[0].webhook() {
		t.Fatalf("the slow webhook is not the first: %+v", out.Webhooks)
	}
	shares := 0.0
	for _, l := range out.Webhooks {
		shares += l.Observed.Share
		name, ours := strings.CutSuffix(l.Name, ".observe.example.com")
		if !ours {
			continue
		}
		tr.compare(t, name, l.Observed, out.Observed)
		if !slices.Equal(l.Configurations, []string{"observe-" + name}) || l.ThresholdSeconds != 1 {
			t.Errorf("%s: configurations %v, threshold %g", name, l.Configurations, l.ThresholdSeconds)
		}
	}
	if math.Abs(shares-1) > 1e-6 {
		t.Errorf("the shares add up to %g", shares)
	}
	if !slices.ContainsFunc(out.NotCalled, func(l line) bool { return l.Name == "idle.observe.example.com" }) {
		t.Errorf("the idle webhook is not among those that were not called: %+v", out.NotCalled)
	}
}

func (tr *traffic) audit(t *testing.T, kubeconfig string) {
	var out struct {
		Observed source
		Webhooks []struct {
			Name     string
			Observed *observed
		}
	}
	read(t, &out, "audit", kubeconfig)
	seen := 0
	for _, hook := range out.Webhooks {
		name, ours := strings.CutSuffix(hook.Name, ".observe.example.com")
		switch {
		case !ours:
		case hook.Observed == nil:
			t.Errorf("%s: nothing observed", hook.Name)
		case name == "idle":
			if hook.Observed.Calls != 0 {
				t.Errorf("idle: %g calls", hook.Observed.Calls)
			}
		default:
			seen++
			tr.compare(t, name, *hook.Observed, out.Observed)
		}
	}
	if seen != 4 {
		t.Errorf("%d webhooks observed, want 4", seen)
	}
}

func (tr *traffic) explain(t *testing.T, kubeconfig, namespace string) {
	var out struct {
		Observed      source
		BudgetSeconds int
		Chain         []line
	}
	read(t, &out, "explain", "create", "configmaps", "-n", namespace, "-l", labelKey+"=slow", kubeconfig)
	if len(out.Chain) != 1 || out.BudgetSeconds != 10 {
		t.Fatalf("chain %+v, %d s at worst", out.Chain, out.BudgetSeconds)
	}
	tr.compare(t, "slow", out.Chain[0].Observed, out.Observed)
}
