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
	_, err := kubectl(t.Context(), "run", "outside", "--restart=Never", "--rm", "--attach", "--image="+nodes.ImageName("fixture"), "--", "ask", elsewhere)
	if err == nil || !strings.Contains(err.Error(), "unreachable") {
		t.Errorf("a Pod reaches something outside: %v", err)
	}
	// The same way works inside, so that the failures mean something.
	if _, err := real.Nodes[1].Ask(t.Context(), "https://"+real.Control().Address()+":6443/livez"); err != nil {
		t.Error(err)
	}
}
