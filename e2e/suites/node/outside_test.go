//go:build linux && node

package node

import (
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/nodes"
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
