//go:build linux && node

package node

import (
	"context"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/nodes"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// elsewhere is an address that no host has.
const elsewhere = "https://192.0.2.1"

// TestNothingLeaves: no node and no Pod reaches anything outside, and has no route there.
func TestNothingLeaves(t *testing.T) {
	for _, n := range real.Nodes {
		if out, err := n.Run(t.Context(), "ip", "route", "show", "default"); err != nil || out != "" {
			t.Errorf("node %s has a default route: %s %v", n.Name, out, err)
		}
		if out, err := n.Ask(t.Context(), elsewhere); err == nil || !strings.Contains(err.Error(), "unreachable") {
			t.Errorf("node %s reaches something outside: %s %v", n.Name, out, err)
		}
	}
	// A Pod that ends at once may end before anything can be attached to it.
	do(t, "run outside --restart=Never --image="+nodes.ImageName("fixture")+" -- ask "+elsewhere)
	t.Cleanup(func() { do(t, "delete pod outside --wait=false") })
	awaitPrinted(t, "get pod outside -o jsonpath={.status.phase}", "Failed")
	awaitPrinted(t, "logs outside", "unreachable")
	// The same way works inside, so that the failures mean something.
	if _, err := real.Nodes[1].Ask(t.Context(), "https://"+real.Control().Address()+":6443/livez"); err != nil {
		t.Error(err)
	}
}

// TestProbeFromOutside: where the auditor does not run in the cluster, something else may
// answer at the address of a Service. It says so, and not that the API server refuses.
func TestProbeFromOutside(t *testing.T) {
	h := hook{name: "probed"}
	h.start(t)
	address := do(t, "-n "+h.name+" get service "+h.name+" -o jsonpath={.spec.clusterIP}")
	testenv.Get(run(t.Context(), "", "ip", "address", "add", address+"/32", "dev", "lo"))(t)
	t.Cleanup(func() {
		testenv.Get(run(context.Background(), "", "ip", "address", "delete", address+"/32", "dev", "lo"))(t)
	})
	other := httptest.NewUnstartedServer(nil)
	listener := testenv.Get(net.Listen("tcp", address+":443"))(t)
	testenv.Must(t, other.Listener.Close())
	other.Listener = listener
	other.StartTLS()
	t.Cleanup(other.Close)
	said := says(t, "audit", "--probe=tls", "-v", "validatingwebhookconfiguration/"+h.name)
	contains(t, "audit --probe=tls", said, "another host may have answered")
	if strings.Contains(said, "refuse") {
		t.Errorf("audit reports what it cannot know:\n%s", said)
	}
}
