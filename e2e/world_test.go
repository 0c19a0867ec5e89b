package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/webhook-auditor/webhook-auditor/e2e/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/webhook"
	stage "github.com/webhook-auditor/webhook-auditor/e2e/world"
)

// patience bounds every wait of a test.
const patience = 30 * time.Second

// world is a control plane, a webhook server and the clients that tests use.
type world struct {
	plane   *cluster.ControlPlane
	kube    kubernetes.Interface
	crds    clientset.Interface
	dynamic dynamic.Interface
	hooks   *webhook.Server
	// users are the tests that use it now, many or one alone.
	users sync.RWMutex
	// audited starts the auditor that watches this world, once.
	audited func() (*auditor.Auditor, error)
}

// These worlds are shared by tests, as each costs seconds to start. The first
// test that needs one starts it; TestMain ends them.
var (
	stock = sync.OnceValues(func() (*world, error) { return newWorld(cluster.Options{}, ended.add) })
	// older is as servers up to 1.36 are: reviews are sent to webhooks.
	older = sync.OnceValues(func() (*world, error) { return bareWorld(sendsReviews) })
)

// sendsReviews makes a server send reviews to webhooks, as older ones do.
const sendsReviews = "--feature-gates=ExcludeAdmissionWebhookVirtualResources=false"

func TestMain(m *testing.M) {
	// Tests wait for their control planes more than they compute.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err) // unreachable: package testing has this flag
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	defer ended.all()
	build := exec.Command("./build.sh")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the control plane:", err)
		return 1
	}
	return m.Run()
}

// ended collects what must be stopped after the last test, last started first.
var ended stops

type stops struct {
	mu sync.Mutex
	do []func() error
}

func (s *stops) add(stop func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.do = append(s.do, stop)
}

func (s *stops) all() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.do) - 1; i >= 0; i-- {
		if err := s.do[i](); err != nil {
			fmt.Fprintln(os.Stderr, "cleaning up:", err)
		}
	}
}

// bareWorld is a shared one without controllers, where nothing is made or
// cleaned up by itself.
func bareWorld(flags ...string) (*world, error) {
	return newWorld(cluster.Options{APIServerFlags: flags, WithoutControllers: true}, ended.add)
}

// ownWorld is for one test alone, and ends with it.
func ownWorld(t *testing.T, options cluster.Options) *world {
	t.Helper()
	w, err := newWorld(options, func(stop func() error) {
		t.Cleanup(func() { must(t, stop()) })
	})
	must(t, err)
	return w
}

// newWorld starts a world and tells atEnd how to stop it.
func newWorld(options cluster.Options, atEnd func(stop func() error)) (*world, error) {
	options.Binaries = "bin"
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
	w := &world{plane: plane, hooks: hooks, audited: sync.OnceValues(func() (*auditor.Auditor, error) { return audit(plane, atEnd) })}
	var failures [3]error
	w.kube, failures[0] = kubernetes.NewForConfig(plane.Config())
	w.crds, failures[1] = clientset.NewForConfig(plane.Config())
	w.dynamic, failures[2] = dynamic.NewForConfig(plane.Config())
	return w, errors.Join(failures[:]...)
}

// use returns one of the shared worlds.
func use(t *testing.T, start func() (*world, error)) *world {
	t.Helper()
	w, err := start()
	must(t, err)
	w.users.RLock()
	t.Cleanup(w.users.RUnlock)
	return w
}

// useAlone returns one of the shared worlds to a test that no other may disturb,
// or that would disturb all others: it registers what meets everybody's
// requests, say.
func useAlone(t *testing.T, start func() (*world, error)) *world {
	t.Helper()
	w, err := start()
	must(t, err)
	w.users.Lock()
	t.Cleanup(w.users.Unlock)
	return w
}

// audit runs the auditor against a control plane and tells atEnd how to stop it.
func audit(plane *cluster.ControlPlane, atEnd func(stop func() error)) (*auditor.Auditor, error) {
	path, err := binary()
	if err != nil {
		return nil, err
	}
	a, err := auditor.Start(context.Background(), auditor.Options{Binary: path, Kubeconfig: plane.Kubeconfig()})
	if err == nil {
		atEnd(a.Stop)
	}
	return a, err
}

// binary is the auditor, built from the tree these tests stand in, as its users
// build it.
var binary = sync.OnceValues(func() (string, error) {
	output, err := exec.Command("make", "-C", "..", "build").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the auditor: %w\n%s", err, output)
	}
	return filepath.Abs("../bin/webhook-auditor")
})

// eventually tries until try returns nil, for at most patience.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	stage.Eventually(t, patience, try)
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// apiServerMetrics are what the API server counts under names that begin so.
func (w *world) apiServerMetrics(t *testing.T, prefix string) metrics.Metrics {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience) // also when the test's own is over
	defer cancel()
	body, err := w.kube.Discovery().RESTClient().Get().AbsPath("/metrics").Stream(ctx)
	must(t, err)
	defer body.Close()
	scrape, err := metrics.ParseOf(prefix, body)
	must(t, err)
	return scrape
}
