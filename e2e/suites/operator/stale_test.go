//go:build faults

package operator

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestFaultStaleGrant blocks the reviews for longer than a grant is believed
// without asking: who was let in before is let in all the same, the log says
// once which webhook is to blame, and later that recovered.
func TestFaultStaleGrant(t *testing.T) {
	const granted = 2 * time.Minute
	g := guard(t)
	known, other := g.account(t, "known"), g.account(t, "other")
	g.allow(t, "known")
	g.answers(t, known, "/metrics", http.StatusOK)
	begun := time.Now()
	g.block(t)
	for !contains(g.process.Output(), "cannot review who may scrape") || time.Since(begun) < granted+10*time.Second {
		if time.Since(begun) > 2*granted {
			t.Fatal("the API server was not asked again")
		}
		if got, _, err := g.get(t.Context(), known, "/metrics"); err != nil || got != http.StatusOK {
			t.Fatalf("after %s: %d %v", time.Since(begun), got, err)
		}
		time.Sleep(5 * time.Second)
	}
	g.answers(t, other, "/metrics", http.StatusServiceUnavailable)
	g.Unregister(t, "all")
	g.answers(t, other, "/metrics", http.StatusForbidden)
	g.answers(t, known, "/metrics", http.StatusOK)
	testenv.Eventually(t, func() error {
		log := g.process.Output()
		if strings.Count(log, "webhook=all.e2e.example.com") != 1 || !contains(log, "recovered") {
			return errors.New("the log does not say once which webhook is to blame, and that recovered")
		}
		return nil
	})
}
