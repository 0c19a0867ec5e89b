// Package world is a control plane with a webhook server beside it, and what
// tests do to both: a stage for those that break things and need one of their
// own.
package world

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/webhook-auditor/webhook-auditor/e2e/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/webhook"
)

// World is a control plane, a webhook server and the clients that tests use.
type World struct {
	Plane   *cluster.ControlPlane
	Kube    kubernetes.Interface
	CRDs    clientset.Interface
	Dynamic dynamic.Interface
	Hooks   *webhook.Server
}

// New starts a world until the end of the test.
func New(t testing.TB, options cluster.Options) *World {
	t.Helper()
	options.Binaries = filepath.Join(root(t), "bin")
	plane, err := cluster.Start(t.Context(), options)
	Must(t, err)
	t.Cleanup(func() { Must(t, plane.Stop()) })
	hooks, err := webhook.Start()
	Must(t, err)
	t.Cleanup(func() { Must(t, hooks.Close()) })
	w := &World{Plane: plane, Hooks: hooks}
	var failures [3]error
	w.Kube, failures[0] = kubernetes.NewForConfig(plane.Config())
	w.CRDs, failures[1] = clientset.NewForConfig(plane.Config())
	w.Dynamic, failures[2] = dynamic.NewForConfig(plane.Config())
	Must(t, errors.Join(failures[:]...))
	return w
}

// prepared builds the control plane and the auditor from the tree these tests
// stand in, as users do.
var prepared = sync.OnceValues(func() (string, error) {
	output, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/webhook-auditor/webhook-auditor/e2e").Output()
	if err != nil {
		return "", err
	}
	dir := strings.TrimSpace(string(output))
	for _, command := range []*exec.Cmd{exec.Command(filepath.Join(dir, "build.sh")), exec.Command("make", "-C", filepath.Dir(dir), "manifests")} {
		if output, err := command.CombinedOutput(); err != nil {
			return "", errors.Join(err, errors.New(string(output)))
		}
	}
	return dir, nil
})

// root is the folder of the end-to-end tests.
func root(t testing.TB) string {
	t.Helper()
	dir, err := prepared()
	Must(t, err)
	return dir
}

// Binary is the auditor.
func Binary(t testing.TB) string {
	t.Helper()
	return filepath.Join(filepath.Dir(root(t)), "bin", "webhook-auditor")
}

// Audit runs the auditor against the world until the end of the test.
func (w *World) Audit(t testing.TB, flags ...string) *auditor.Auditor {
	t.Helper()
	return AuditAs(t, w.Plane.Kubeconfig(), flags...)
}

// AuditAs runs the auditor as whom the kubeconfig says, until the end of the
// test.
func AuditAs(t testing.TB, kubeconfig string, flags ...string) *auditor.Auditor {
	t.Helper()
	a, err := auditor.Start(t.Context(), auditor.Options{Binary: Binary(t), Kubeconfig: kubeconfig, Flags: flags})
	Must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the auditor's log:\n%s", a.Output())
		}
		Must(t, a.Stop())
	})
	return a
}

// Eventually tries until try returns nil, for at most the patience: often at
// first, for what comes at once.
func Eventually(t testing.TB, patience time.Duration, try func() error) {
	t.Helper()
	begun := time.Now()
	pace := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 1.3, Steps: 10, Cap: 250 * time.Millisecond}
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Since(begun) > patience {
			t.Fatalf("still after %s: %v", patience, err)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(context.Cause(t.Context()))
		case <-time.After(pace.Step()):
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
