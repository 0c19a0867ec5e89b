package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/access"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/operator"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster"
)

// dead is a cluster with a webhook whose Service is missing.
func dead(snapshotTime time.Time) *inventory.Snapshot {
	return inventory.Objects{
		Cluster: inventory.Cluster{ServicesKnown: inventory.Coverage{All: true}},
		Validating: []*admissionv1.ValidatingWebhookConfiguration{
			kubetest.Validating("policy", kubetest.Webhook("jobs.policy.example.com", kubetest.Client("policy", "gone"), kubetest.Rule("batch", "jobs", "CREATE"))),
		},
	}.Snapshot(snapshotTime)
}

func newTestDaemon(log *bytes.Buffer) *daemon {
	return newDaemon(classify.DefaultPolicy(), operator.NewTracker(operator.TrackerOptions{RollUp: operator.RollUpOn, Inertia: time.Hour}), slog.New(slog.NewTextHandler(log, nil)))
}

// TestConditionsFollowTheClock: the inertia passes between two Snapshots.
func TestConditionsFollowTheClock(t *testing.T) {
	for age, want := range map[time.Duration]metav1.ConditionStatus{time.Minute: metav1.ConditionFalse, 2 * time.Hour: metav1.ConditionTrue} {
		d := newTestDaemon(&bytes.Buffer{})
		d.publish(t.Context(), admission.New(dead(time.Now().Add(-age))))
		conditions := d.current().Conditions
		i := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == operator.Degraded })
		if conditions[i].Status != want {
			t.Errorf("after %s: Degraded=%s, want %s", age, conditions[i].Status, want)
		}
	}
	if newTestDaemon(&bytes.Buffer{}).current() != nil {
		t.Error("a report before the first snapshot")
	}
}

// TestReadableAgain: each error is logged once, and only what can really be read again is
// logged as that.
func TestReadableAgain(t *testing.T) {
	var log bytes.Buffer
	d := newTestDaemon(&log)
	lost := inventory.Error{Object: cluster.APIServer, Message: "connection refused; nothing is known of it"}
	lostLater := inventory.Error{Object: cluster.APIServer, Message: "connection refused; its last known state, of 12:00, is kept"}
	forbidden := inventory.Error{Object: "namespaces", Message: "list namespaces is forbidden"}
	for i, step := range []struct {
		errs        []inventory.Error
		lines, word string
	}{
		{[]inventory.Error{forbidden}, "cannot read resource", "forbidden"},
		{[]inventory.Error{forbidden}, "", ""},
		{[]inventory.Error{lost}, "cannot read resource", "nothing is known"},
		{[]inventory.Error{lostLater}, "cannot read resource", "of 12:00"},
		{[]inventory.Error{forbidden}, "resource readable again", cluster.APIServer},
		{nil, "resource readable again", "namespaces"},
		{nil, "", ""},
		{[]inventory.Error{forbidden}, "cannot read resource", "forbidden"},
	} {
		log.Reset()
		d.unread(step.errs)
		if got := log.String(); strings.Count(got, "\n") != min(len(step.lines), 1) || !strings.Contains(got, step.lines) || !strings.Contains(got, step.word) {
			t.Errorf("step %d: logged %q, want %q of %q alone", i, got, step.lines, step.word)
		}
	}
}

// TestPanicsAreCounted: each is counted, and the first ones are logged with their stacks.
func TestPanicsAreCounted(t *testing.T) {
	var log bytes.Buffer
	d := newTestDaemon(&log)
	for range 3 * libraryBurst {
		d.panicked("index out of range [5]", []byte("goroutine 1"))
	}
	if n := testutil.ToFloat64(d.own.PagePanics); n != 3*libraryBurst {
		t.Errorf("%v panics are counted", n)
	}
	if n := strings.Count(log.String(), "goroutine 1"); n != libraryBurst || !strings.Contains(log.String(), "out of range") {
		t.Errorf("%d stacks are logged:\n%s", n, log.String())
	}
}

// TestReviewsAreLoggedByKind: what works again is what failed.
func TestReviewsAreLoggedByKind(t *testing.T) {
	var log bytes.Buffer
	d := newTestDaemon(&log)
	dead := errors.New(`reviewing: failed calling webhook "all.example.com": no`)
	for range 2 {
		d.reviewed(access.Token, dead)
		d.reviewed(access.Access, dead)
	}
	d.reviewed(access.Token, nil)
	if failed, recovered := strings.Count(log.String(), "webhook=all.example.com"), strings.Count(log.String(), "recovered"); failed != 2 || recovered != 1 {
		t.Errorf("%d failures and %d recoveries are logged, want those of two kinds and of one:\n%s", failed, recovered, log.String())
	}
}

// TestChangesAreLogged: a line for each change of a registration, with what it means and
// who wrote it; none for what is there at the start, and none for another Policy.
func TestChangesAreLogged(t *testing.T) {
	var log bytes.Buffer
	d := newTestDaemon(&log)
	state := func(policy admissionv1.FailurePolicyType) *admission.Matcher {
		return admission.New(inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "policy", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl-edit", Time: new(metav1.Now())}}},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "jobs.policy.example.com", FailurePolicy: new(policy), ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://hooks.example.com/")},
			}},
		}}}.Snapshot(time.Now()))
	}
	d.publish(t.Context(), state(admissionv1.Fail))
	d.publish(t.Context(), nil)
	if strings.Contains(log.String(), "registration changed") {
		t.Errorf("a change before there is one:\n%s", log.String())
	}
	d.publish(t.Context(), state(admissionv1.Ignore))
	d.publish(t.Context(), nil)
	for _, words := range []string{`msg="registration changed"`, "type=validating configuration=policy by=kubectl-edit", "failurePolicy Fail → Ignore: while its backend"} {
		if n := strings.Count(log.String(), words); n != 1 {
			t.Errorf("logged %q %d times:\n%s", words, n, log.String())
		}
	}
	if kept := d.history.After(0); len(kept) != 1 {
		t.Errorf("%d changes are kept", len(kept))
	}
}

// TestReady: not before the first Report. A metric has how long an evaluation is running.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTestDaemon(&bytes.Buffer{})
		for _, want := range []int{http.StatusServiceUnavailable, http.StatusOK} {
			response := httptest.NewRecorder()
			if d.ready(response, httptest.NewRequest(http.MethodGet, "/readyz", nil)); response.Code != want {
				t.Errorf("/readyz answers %d, want %d: %s", response.Code, want, response.Body)
			}
			d.publish(t.Context(), admission.New(dead(time.Now())))
		}
		end := d.begin()
		time.Sleep(20 * time.Second)
		if got := d.elapsed(); got != 20*time.Second {
			t.Errorf("running for %s", got)
		}
		if end(); d.elapsed() != 0 {
			t.Error("it is over and still running")
		}
	})
}

// TestEvaluationEndsWithItsContext: what is not complete is not published.
func TestEvaluationEndsWithItsContext(t *testing.T) {
	d := newTestDaemon(&bytes.Buffer{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d.publish(ctx, admission.New(dead(time.Now())))
	if d.current() != nil {
		t.Error("an evaluation that was ended is published")
	}
}

// logBuffer is a log that several goroutines write.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Split(strings.TrimSpace(b.text.String()), "\n")
}

// TestIdleConnectionsAreCounted: 400 connections that end before their TLS handshake are
// some lines.
func TestIdleConnectionsAreCounted(t *testing.T) {
	var log logBuffer
	messages := exporter.NewOwn(nil).LibraryMessages
	library := newLibraryLog(slog.NewTextHandler(&log, nil), "net/http", messages)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(library, slog.LevelWarn)
	server.StartTLS()
	defer server.Close()
	const idle = 400
	for range idle {
		c := must.Get(net.Dial("tcp", server.Listener.Addr().String()))(t)
		c.Close()
	}
	for testutil.ToFloat64(messages.WithLabelValues("net/http")) < idle {
		if t.Context().Err() != nil {
			t.Fatal("not all messages are counted")
		}
	}
	if lines := log.lines(); len(lines) > 2*libraryBurst || !strings.Contains(lines[0], "TLS handshake error") || !strings.Contains(lines[0], "library=net/http") {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
}

// TestKlogGoesThroughTheLog: what Kubernetes' libraries log is in the format of
// the log, and counted.
func TestKlogGoesThroughTheLog(t *testing.T) {
	var log logBuffer
	messages := exporter.NewOwn(nil).LibraryMessages
	klog.SetSlogLogger(slog.New(newLibraryLog(slog.NewTextHandler(&log, nil), "klog", messages)))
	defer klog.ClearLogger()
	for range 3 {
		klog.ErrorS(nil, "Failed to do it", "namespace", "policy")
	}
	if lines := log.lines(); len(lines) != 3 || !strings.Contains(lines[0], `level=ERROR msg="Failed to do it" library=klog namespace=policy`) {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	if n := testutil.ToFloat64(messages.WithLabelValues("klog")); n != 3 {
		t.Errorf("%v messages counted, want 3", n)
	}
}

// TestEndedCallsAreNotLogged: SIGTERM ends a call whose answer is being read, which
// client-go logs as an unexpected error.
func TestEndedCallsAreNotLogged(t *testing.T) {
	var log logBuffer
	library := slog.New(newLibraryLog(slog.NewTextHandler(&log, nil), "klog", exporter.NewOwn(nil).LibraryMessages))
	library.Error("Unexpected error when reading response body", "err", fmt.Errorf("reading: %w", context.Canceled))
	library.Error("Broken", "err", io.ErrUnexpectedEOF)
	if lines := log.lines(); len(lines) != 1 || !strings.Contains(lines[0], "Broken") {
		t.Errorf("logged %q", lines)
	}
}
