//go:build faults

// Package faults breaks a control plane in every way that one breaks, under an
// auditor that must lose nothing and need no restart. "make test-faults" runs
// it.
package faults

import (
	"context"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/proxy"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// recovery bounds how long everything may take to be as it should after a
// fault is gone: the longest pause between failing calls, on a busy machine.
const recovery = testenv.MaxWait

// How long faults last: those that a load balancer or an operator resolves, and
// those that a supervisor does.
const (
	outage = time.Minute
	brief  = 15 * time.Second
)

const (
	finding   = auditor.Prefix + "finding"
	info      = auditor.Prefix + "webhook_info"
	timestamp = auditor.Prefix + "snapshot_timestamp_seconds"
)

var elected = []string{"--leader-elect", "--namespace=" + testenv.Home, "--degraded.inertia=1s"}

// stage is a world, an auditor in it, and a webhook whose Service is missing.
type stage struct {
	*testenv.Env
	*auditor.Auditor
	proxy *proxy.Proxy
	// audit is what an audit reported before the fault.
	audit testenv.Document
}

func newStage(t *testing.T) *stage {
	t.Helper()
	w := testenv.New(t, cluster.Options{WithoutControllers: true})
	w.InstallAPIs(t)
	s := newAct(t, w, elected...)
	s.missing(t, "before")
	s.awaitReported(t, "before")
	return s
}

// newAct runs an auditor in a world that it reaches through a proxy of its own.
func newAct(t *testing.T, w *testenv.Env, flags ...string) *stage {
	t.Helper()
	p := testenv.Get(proxy.Start(w.Plane.Config()))(t)
	t.Cleanup(func() { testenv.Must(t, p.Close()) })
	s := &stage{Env: w, proxy: p}
	s.Auditor = s.replica(t, flags...)
	return s
}

// replica runs an auditor that reaches the API server through the proxy.
func (s *stage) replica(t *testing.T, flags ...string) *auditor.Auditor {
	t.Helper()
	return testenv.RunAs(t, testenv.Kubeconfig(t, &rest.Config{Host: s.proxy.URL}), flags...)
}

// unserved is a webhook that is called for nothing, and whose Service is missing.
func unserved(name string) admissionv1.ValidatingWebhook {
	h := testenv.CatchAll("configmaps")
	h.Name = name + ".e2e.example.com"
	h.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"of": "none"}}
	return h
}

// register registers a webhook.
func (s *stage) register(ctx context.Context, name string, h admissionv1.ValidatingWebhook) error {
	c := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionv1.ValidatingWebhook{h}}
	_, err := s.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, c, metav1.CreateOptions{})
	return err
}

// missing registers a webhook whose Service is missing.
func (s *stage) missing(t *testing.T, name string) {
	t.Helper()
	testenv.EventuallyWithin(t, recovery, func() error { return s.register(t.Context(), name, unserved(name)) })
}

// awaitReported waits until the metrics and the conditions have a webhook.
func (s *stage) awaitReported(t *testing.T, name string) {
	t.Helper()
	s.exports(t, name)
	awaitDegraded(t, s.Env, name+".e2e")
}

// awaitDegraded waits until the conditions have a text.
func awaitDegraded(t *testing.T, w *testenv.Env, text string) {
	t.Helper()
	for _, target := range testenv.Targets {
		testenv.EventuallyWithin(t, recovery, func() error {
			return w.Condition(t.Context(), target, metav1.Condition{Type: "Degraded", Status: metav1.ConditionTrue, Message: text})
		})
	}
}

// exports waits until the metrics have a webhook.
func (s *stage) exports(t *testing.T, name string) {
	t.Helper()
	testenv.EventuallyWithin(t, recovery, func() error { return s.exported(t, name) })
}

// exported wants the metrics to have a webhook.
func (s *stage) exported(t *testing.T, name string) error {
	return s.scrapes(t.Context(), metrics.Present(finding, metrics.Labels{"check": "service-missing", "configuration": name}))
}

// removed waits until the metrics have a webhook no more.
func (s *stage) removed(t *testing.T, name string) {
	t.Helper()
	testenv.EventuallyWithin(t, recovery, func() error {
		return s.scrapes(t.Context(), metrics.Absent(info, metrics.Labels{"configuration": name}))
	})
}

func (s *stage) scrapes(ctx context.Context, holds metrics.Condition) error {
	m, err := s.Scrape(ctx)
	if err != nil {
		return err
	}
	return holds(m)
}

// during holds for a while that the auditors serve the last Snapshot, and do not claim
// that it is current where it is not.
func during(t *testing.T, d time.Duration, stages ...*stage) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < d; time.Sleep(500 * time.Millisecond) {
		for _, s := range stages {
			testenv.Must(t, s.exported(t, "before"))
			testenv.Must(t, servesOrIsOlder(t.Context(), s.Auditor, s.audit))
		}
	}
}

// current waits until the Snapshot is current again.
func (s *stage) current(t *testing.T) {
	t.Helper()
	testenv.EventuallyWithin(t, recovery+time.Minute, func() error { // an unchanged one is published every minute
		return s.scrapes(t.Context(), func(m metrics.Metrics) error {
			if age := time.Since(snapshotTime(m)); age > 30*time.Second {
				return fmt.Errorf("the snapshot is %s old", age)
			}
			return nil
		})
	})
}

// survived wants the whole truth after a fault: what changed since, and
// nothing that is gone.
func (s *stage) survived(t *testing.T) {
	t.Helper()
	name := strings.ToLower(strings.ReplaceAll(path.Base(t.Name()), "_", "-"))
	s.missing(t, name)
	s.awaitReported(t, name)
	s.Unregister(t, name)
	s.removed(t, name)
	s.current(t)
	equalsAudit(t, s.Env, s.Auditor)
}

// TestFaults runs one fault after the other against one auditor that is never
// restarted.
func TestFaults(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, fault := range []struct {
		name string
		do   func(*testing.T, *stage)
	}{
		{"api server killed", killAPIServer},
		{"etcd stopped", stopEtcd},
		{"watches gone", expireWatches},
		{"catch-all", catchAll},
		{"the future", stampFuture},
		{"churn", churn},
		{"soak", soak},
	} {
		t.Run(fault.name, func(t *testing.T) {
			s.audit = audited(t, s.Plane.Kubeconfig())
			fault.do(t, s)
			s.survived(t)
		})
	}
	select {
	case <-s.Done():
		t.Errorf("the auditor ended:\n%s", s.Output())
	default:
	}
}

// killAPIServer kills it as kill -9 does, changes nothing while it is away, and
// starts it again.
func killAPIServer(t *testing.T, s *stage) {
	s.Plane.APIServer.Kill()
	during(t, brief, s)
	testenv.Must(t, s.Plane.APIServer.Start(t.Context()))
}

func stopEtcd(t *testing.T, s *stage) {
	testenv.Must(t, s.Plane.Etcd.Stop())
	during(t, outage, s)
	testenv.Must(t, s.Plane.Etcd.Start(t.Context()))
}

func expireWatches(t *testing.T, s *stage) {
	s.proxy.Break(proxy.Expire)
	// Lists still pass: what changes is seen all the same.
	s.missing(t, "relisted")
	s.exports(t, "relisted")
	s.Unregister(t, "relisted")
	during(t, brief, s)
	s.proxy.Break(nil)
}

// catchAll blocks every write, and restarts the API server under it. Another
// replica that starts meanwhile comes up from what can be read.
func catchAll(t *testing.T, s *stage) {
	s.Validate(t, "all", testenv.CatchAll("*/*"))
	s.missing(t, "under-catch-all")
	s.exports(t, "under-catch-all")
	s.Plane.APIServer.Kill()
	testenv.Must(t, s.Plane.APIServer.Start(t.Context()))
	fresh := &stage{Env: s.Env, Auditor: s.replica(t, elected...), proxy: s.proxy}
	fresh.exports(t, "under-catch-all")
	testenv.Must(t, fresh.Stop())
	s.Unregister(t, "all")
	s.awaitReported(t, "under-catch-all")
	s.Unregister(t, "under-catch-all")
}

// stampFuture has a writer whose clock is ten minutes ahead stamp a
// configuration.
func stampFuture(t *testing.T, s *stage) {
	s.missing(t, "stamped")
	client := s.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	made := testenv.Get(client.Get(t.Context(), "stamped", metav1.GetOptions{}))(t)
	for i := range made.ManagedFields {
		made.ManagedFields[i].Time = new(metav1.NewTime(time.Now().Add(10 * time.Minute)))
	}
	testenv.Get(client.Update(t.Context(), made, metav1.UpdateOptions{}))(t)
	s.awaitReported(t, "stamped")
	s.Unregister(t, "stamped")
}

// soaking is how long the soak lasts.
func soaking() time.Duration {
	if os.Getenv("SOAK") != "" {
		return 20 * time.Minute
	}
	return 10 * time.Second
}
