//go:build linux && node

package node

import (
	"regexp"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// link is a configuration with a mutating webhook that is given 20 seconds, and fails open.
func link(name string) string {
	return strings.NewReplacer("Validating", "Mutating", "{name: NAME,", "{name: NAME-"+name+",", "failurePolicy: Fail", "failurePolicy: Ignore",
		"timeoutSeconds: 10", "timeoutSeconds: 20").Replace(hookConfiguration)
}

// shortens is the command that gives a webhook less time.
var shortens = regexp.MustCompile(`kubectl patch mutatingwebhookconfiguration [^;\n]*timeoutSeconds[^;\n]*`)

// TestChain: the audit warns of webhooks with failurePolicy Ignore that outlast their request
// together. They hang, and requests are refused; with the patch that is printed they pass.
func TestChain(t *testing.T) {
	h := hook{name: "chain", register: link("first") + "---" + link("second")}
	h.start(t)
	for _, configuration := range []string{"chain-first", "chain-second"} {
		awaitFinding(t, sought{check: "chain-outlasts-request", configuration: configuration})
	}
	environment(t, h, "DELAY=60s")
	ready(t, h.name, h.name)
	r := row{broken: "two webhooks with `failurePolicy: Ignore` hang", answer: "request did not complete", finding: "`chain-outlasts-request`, before it"}
	answer, refused, err := h.refused(t.Context(), "request did not complete within requested timeout")
	testenv.Must(t, err)
	contains(t, "explain --error", says(t, "explain", "--error", answer), "request-timeout", "webhook-auditor explain")
	contains(t, "explain create", says(t, "explain", "create", "configmaps", "-n", h.name+"-used"), "34 s")
	fixes := says(t, "audit", "mutatingwebhookconfiguration/chain-second", "--fixes")
	command := shortens.FindString(fixes)
	if command == "" {
		t.Fatalf("no command gives a webhook less time:\n%s", fixes)
	}
	shell(t, command)
	r.refused, r.healed = refused, h.admitted(t)
	r.resolved = awaitFinding(t, sought{check: "chain-outlasts-request", configuration: "chain-second", gone: true}) + r.healed
	measured.outages = append(measured.outages, r)
}
