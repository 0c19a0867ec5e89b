package inputs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// gate is a cluster of one release that is evaluated for another.
type gate struct {
	name  string
	start *testenv.Shared
	next  string
	// resolved and added are what the other release makes of a webhook for
	// TokenReviews.
	resolved, added string
	code            int
}

// TestUpgradeGate: what another release would make of the webhooks of a live
// cluster, compared with what they are now.
func TestUpgradeGate(t *testing.T) {
	for _, g := range []gate{
		{name: "to a server that spares reviews", start: older, next: "v1.37", resolved: "virtual-resource", added: "dead-rule"},
		{name: "to a server that does not", start: stock, next: "v1.36", resolved: "dead-rule", added: "virtual-resource", code: 3},
	} {
		t.Run(g.name, func(t *testing.T) {
			w := g.start.Use(t)
			b := w.Backend(t, "upgrade")
			w.Validate(t, b.Namespace, testenv.Hook(b, "/allow/upgrade", testenv.Rule("authentication.k8s.io", "tokenreviews")))
			cluster := []string{"--kubeconfig=" + w.Plane.Kubeconfig(), "--aggregator-routing=true"}
			now, got := testenv.Report(t, append(cluster, "--fail-on=never")...)
			if got.Code != 0 || !now.HasFinding(g.resolved, b.Namespace) || now.HasFinding(g.added, b.Namespace) {
				t.Fatalf("exit code %d, %s: want %s now\n%s", got.Code, got.Stderr, g.resolved, got.Stdout)
			}
			before := filepath.Join(t.TempDir(), "before.json")
			testenv.Must(t, os.WriteFile(before, []byte(got.Stdout), 0o600))
			got = testenv.Command(t, append([]string{"audit", "-o=json", "--baseline=" + before, "--server-version=" + g.next}, cluster...)...)
			var change struct {
				Server          string
				Baseline        struct{ Server string }
				Added, Resolved []struct{ Check, Configuration string }
			}
			testenv.Must(t, json.Unmarshal([]byte(got.Stdout), &change))
			find := func(of []struct{ Check, Configuration string }, check string) bool {
				for _, f := range of {
					if f.Check == check && f.Configuration == b.Namespace {
						return true
					}
				}
				return false
			}
			if !find(change.Added, g.added) || !find(change.Resolved, g.resolved) || got.Code != g.code {
				t.Errorf("exit code %d, want %d; added %v, resolved %v", got.Code, g.code, change.Added, change.Resolved)
			}
			if change.Server != g.next || change.Baseline.Server == g.next {
				t.Errorf("evaluated for %s, compared with %s", change.Server, change.Baseline.Server)
			}
		})
	}
}
