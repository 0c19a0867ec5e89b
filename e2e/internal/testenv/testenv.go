// Package testenv starts what a test needs: a control plane with a webhook
// server beside it, an auditor that watches it, and clients. A Suite shares
// environments between the tests of a package, New starts one for a single test.
package testenv

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// MaxWait bounds most waits of a test.
const MaxWait = auditor.MaxWait

// Env is a control plane, a webhook server and the clients that tests use.
type Env struct {
	Plane   *cluster.ControlPlane
	Kube    kubernetes.Interface
	CRDs    clientset.Interface
	Dynamic dynamic.Interface
	Hooks   *webhook.Server

	// shared says that other tests use it later on, so that each removes what it made.
	shared bool
	// watching is the auditor that Scraper starts, once.
	watching func() (*auditor.Auditor, error)
}

// New starts an environment for one test, and stops it at the end of that test.
func New(t testing.TB, options cluster.Options) *Env {
	t.Helper()
	env, err := start(options, func(stop func() error) {
		t.Cleanup(func() { Must(t, stop()) })
	})
	Must(t, err)
	return env
}

// start starts an environment and passes what stops it to atEnd, in the order in
// which it was started.
func start(options cluster.Options, atEnd func(stop func() error)) (*Env, error) {
	binaries, err := programs.ControlPlane()
	if err != nil {
		return nil, err
	}
	options.Binaries = binaries
	plane, err := cluster.Start(context.Background(), options)
	if err != nil {
		return nil, err
	}
	atEnd(plane.Stop)
	hooks, err := webhook.Start()
	if err != nil {
		return nil, err
	}
	atEnd(hooks.Close)
	if Minor() < RoutesBySlices.Since {
		hooks.Put = plane.Put
	}
	if Minor() < ResolvesEachCall.Since {
		hooks.HangUp()
	}
	env := &Env{Plane: plane, Hooks: hooks}
	env.watching = sync.OnceValues(func() (*auditor.Auditor, error) {
		a, err := run(plane.Kubeconfig())
		if err == nil {
			atEnd(a.Stop)
		}
		return a, err
	})
	var failures [3]error
	env.Kube, failures[0] = kubernetes.NewForConfig(plane.Config())
	env.CRDs, failures[1] = clientset.NewForConfig(plane.Config())
	env.Dynamic, failures[2] = dynamic.NewForConfig(plane.Config())
	return env, errors.Join(failures[:]...)
}

func run(kubeconfig string, flags ...string) (*auditor.Auditor, error) {
	path, err := programs.Auditor()
	if err != nil {
		return nil, err
	}
	return auditor.Start(context.Background(), auditor.Options{Binary: path, Kubeconfig: kubeconfig, Flags: flags})
}

// Binary is the path of the auditor.
func Binary(t testing.TB) string {
	t.Helper()
	return Get(programs.Auditor())(t)
}

// Run runs the auditor as an administrator until the end of the test.
func (e *Env) Run(t testing.TB, flags ...string) *auditor.Auditor {
	t.Helper()
	return RunAs(t, e.Plane.Kubeconfig(), flags...)
}

// RunAs runs the auditor with a kubeconfig until the end of the test.
func RunAs(t testing.TB, kubeconfig string, flags ...string) *auditor.Auditor {
	t.Helper()
	a := Get(run(kubeconfig, flags...))(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the auditor's log:\n%s", a.Output())
		}
		Must(t, a.Stop())
	})
	return a
}

// APIServerMetrics are the series of the API server whose names have the prefix.
func (e *Env) APIServerMetrics(t testing.TB, prefix string) metrics.Metrics {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), MaxWait) // also in a cleanup, when the test's own is done
	defer cancel()
	body := Get(e.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").DoRaw(ctx))(t)
	return Get(metrics.ParseOf(regexp.MustCompile("^"+prefix), body))(t)
}

// Eventually calls try until it returns nil, for at most MaxWait.
func Eventually(t testing.TB, try func() error) {
	t.Helper()
	EventuallyWithin(t, MaxWait, try)
}

// EventuallyWithin calls try until it returns nil, for at most the timeout: often
// at first, for what comes at once.
func EventuallyWithin(t testing.TB, timeout time.Duration, try func() error) {
	t.Helper()
	begun := time.Now()
	pause := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 1.3, Steps: 10, Cap: 250 * time.Millisecond}
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Since(begun) > timeout {
			t.Fatalf("still after %s: %v", timeout, err)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(context.Cause(t.Context()))
		case <-time.After(pause.Step()):
		}
	}
}

// Must ends the test on an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get returns what a function returned, and ends the test if it returned an error too:
//
//	text := testenv.Get(os.ReadFile(file))(t)
func Get[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Must(t, err)
		return value
	}
}
