//go:build linux && node

package node

import (
	"context"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/nodes"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestPowerCut ends all nodes at once, with a webhook on Pods that fails closed, and
// starts them again: all comes back without help.
func TestPowerCut(t *testing.T) {
	h := hook{name: "power", resources: "pods", selector: "matchExpressions: []"}
	h.start(t)
	awaitFinding(t, sought{check: "bootstrap-deadlock", configuration: h.name})
	for _, n := range real.Nodes {
		n.PowerOff()
	}
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	for _, n := range real.Nodes {
		testenv.Must(t, n.Boot(ctx))
	}
	testenv.Must(t, real.AwaitNodes(ctx))
	t.Logf("nodes ready after %s", time.Since(begun).Round(time.Second))
	ready(t, h.name, h.name)
	ready(t, home, "webhook-auditor")
	h.admitted(t)
	awaitFinding(t, sought{check: "no-ready-endpoints", configuration: h.name, gone: true})
	awaitFinding(t, sought{check: "backend-unreachable", configuration: h.name, gone: true})
	t.Logf("all well after %s", time.Since(begun).Round(time.Second))
}

// TestPlugPulled ends the node on which a webhook's only Pod runs: the finding comes with
// what Kubernetes itself notices, and goes with the Pod on another node.
func TestPlugPulled(t *testing.T) {
	h := hook{name: "pulled"}
	h.start(t)
	place := do(t, "-n "+h.name+" get pods -o jsonpath={.items[0].spec.nodeName}")
	if place == real.Control().Name {
		t.Fatal("the Pod runs beside the control plane")
	}
	real.Node(place).PowerOff()
	t.Cleanup(func() { reboot(t, real.Node(place)) })
	found := awaitFinding(t, sought{check: "no-ready-endpoints", configuration: h.name})
	t.Logf("found after %s", found.Round(time.Second))
	h.admitted(t)
	awaitFinding(t, sought{check: "no-ready-endpoints", configuration: h.name, gone: true})
}

// reboot starts a node that is off.
func reboot(t testing.TB, n *nodes.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
	defer cancel()
	testenv.Must(t, n.Boot(ctx))
	testenv.Must(t, real.AwaitNodes(ctx))
}
