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
	boot(t, real.Nodes...)
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
	t.Cleanup(func() { boot(t, real.Node(place)) })
	begun := time.Now()
	r := row{broken: "the plug of its node is pulled", answer: "failed calling webhook", finding: "`no-ready-endpoints`"}
	var err error
	_, r.refused, err = h.refused(t.Context(), r.answer)
	testenv.Must(t, err)
	awaitFinding(t, sought{check: "no-ready-endpoints", configuration: h.name})
	r.found = time.Since(begun)
	r.healed = h.admitted(t)
	r.resolved = awaitFinding(t, sought{check: "no-ready-endpoints", configuration: h.name, gone: true}) + r.healed
	measured.outages = append(measured.outages, r)
}

// boot starts nodes that are off.
func boot(t testing.TB, off ...*nodes.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	for _, n := range off {
		testenv.Must(t, n.Boot(ctx))
	}
	testenv.Must(t, real.AwaitNodes(ctx))
}
