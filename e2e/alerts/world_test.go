package alerts

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/webhook-auditor/webhook-auditor/e2e/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/webhook"
)

// patience bounds every wait of a test.
const patience = 3 * time.Minute

// timeScale makes five minutes of the alerts, their shortest window, nine
// seconds: long enough for several scrapes.
const timeScale = 0.03

func TestMain(m *testing.M) {
	// Tests wait for alerts more than they compute.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err) // unreachable: package testing has this flag
	}
	for _, script := range []string{"../build.sh", "../prom/build.sh"} {
		build := exec.Command(script)
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "building the control plane and Prometheus:", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// binary is the auditor, built from the tree these tests stand in.
var binary = sync.OnceValues(func() (string, error) {
	output, err := exec.Command("make", "-C", "../..", "build").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the auditor: %w\n%s", err, output)
	}
	return filepath.Abs("../../bin/webhook-auditor")
})

// world is a control plane and the clients that tests use.
type world struct {
	plane     *cluster.ControlPlane
	kube      kubernetes.Interface
	crds      clientset.Interface
	dynamic   dynamic.Interface
	hooks     *webhook.Server
	manifests manifests // "" where the API server reads none
}

// newWorld starts a control plane and a webhook server until the end of the
// test.
func newWorld(t testing.TB, o cluster.Options) world {
	t.Helper()
	o.Binaries = "../bin"
	plane, err := cluster.Start(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { must(t, plane.Stop()) })
	hooks, err := webhook.Start()
	must(t, err)
	t.Cleanup(func() { must(t, hooks.Close()) })
	kube, err := kubernetes.NewForConfig(plane.Config())
	must(t, err)
	crds, err := clientset.NewForConfig(plane.Config())
	must(t, err)
	client, err := dynamic.NewForConfig(plane.Config())
	must(t, err)
	return world{plane: plane, kube: kube, crds: crds, dynamic: client, hooks: hooks}
}

// auditors runs two auditors, until the end of the test or before, and returns
// where they are.
func (w world) auditors(t testing.TB) (urls []string, stop func()) {
	t.Helper()
	path, err := binary()
	must(t, err)
	var running []*auditor.Auditor
	stop = func() {
		for _, a := range running {
			must(t, a.Stop())
		}
		running = nil
	}
	t.Cleanup(stop)
	for range 2 {
		a, err := auditor.Start(t.Context(), auditor.Options{Binary: path, Kubeconfig: w.plane.Kubeconfig()})
		must(t, err)
		running, urls = append(running, a), append(urls, a.URL)
	}
	return urls, stop
}

// watch runs Prometheus and Alertmanager until the end of the test.
func (w world) watch(t testing.TB, scale float64, targets Targets, notify string) *Stack {
	t.Helper()
	path, err := binary()
	must(t, err)
	stack, err := Start(t.Context(), Options{
		Binaries:  "../bin",
		Auditor:   path,
		Routes:    "../../rules/alertmanager.yaml",
		Notify:    notify,
		TimeScale: scale,
		APIServer: w.plane.Config(),
		Targets:   targets,
	})
	must(t, err)
	t.Cleanup(func() { must(t, stack.Stop()) })
	return stack
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

// pages are the alerts of each notification that woke somebody up for the
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

// eventually tries until try returns nil, for at most patience.
func eventually(t testing.TB, try func(context.Context) error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := try(t.Context())
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still after %s: %v", patience, err)
		}
		time.Sleep(250 * time.Millisecond)
	}
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
