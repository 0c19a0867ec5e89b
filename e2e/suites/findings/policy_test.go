package findings

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestPolicyIsReloaded changes the Policy of a running auditor: an
// acknowledgement takes a finding off /metrics and back, and a bad file changes
// nothing but what the auditor says of it.
func TestPolicyIsReloaded(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	b := w.Backend(t, "policy-reload")
	testenv.Must(t, b.DeleteService(t.Context()))
	w.Validate(t, b.Namespace, testenv.Hook(b, "/", testenv.Rule("", "configmaps")))
	file := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, file, "{}")
	p := followedPolicy{testenv.NewScraper(t, w.Run(t, "--config="+file)), file}
	dead := testenv.Identity("validating", b.Namespace, b.Namespace+".e2e.example.com")
	acknowledging := fmt.Sprintf("acknowledgements: [{check: service-missing, configuration: %s, reason: it is known}]", b.Namespace)

	p.AwaitFinding("service-missing", "critical", dead)
	p.reloaded(1)
	write(t, file, acknowledging)
	p.AwaitNoFinding("service-missing", dead)
	p.reloaded(1)
	write(t, file, "acknowledgement: []")
	p.reloaded(0)
	p.AwaitNoFinding("service-missing", dead)
	p.logs(`unknown key \"acknowledgement\"`, 1)
	p.replace("{}") // good again, and renamed as editors do
	p.reloaded(1)
	p.AwaitFinding("service-missing", "critical", dead)
	p.logs("cannot reload the Policy; the last good one stays in effect", 1)
}

// followedPolicy is an auditor and the file of its Policy.
type followedPolicy struct {
	testenv.Scraper
	file string
}

// reloaded waits until /metrics says whether the last reload was successful.
func (p followedPolicy) reloaded(successful float64) {
	p.T.Helper()
	p.Await(fmt.Sprintf("reload successful: %v", successful), metrics.Equals(auditor.Prefix+"policy_last_reload_successful", nil, successful))
}

// logs wants the words to be in the log so many times.
func (p followedPolicy) logs(words string, times int) {
	p.T.Helper()
	if n := strings.Count(p.Output(), words); n != times {
		p.T.Errorf("%q is logged %d times, want %d:\n%s", words, n, times, p.Output())
	}
}

// replace renames a new file over the old one.
func (p followedPolicy) replace(content string) {
	p.T.Helper()
	write(p.T, p.file+"~", content)
	testenv.Must(p.T, os.Rename(p.file+"~", p.file))
}

func write(t testing.TB, file, content string) {
	t.Helper()
	testenv.Must(t, os.WriteFile(file, []byte(content), 0o600))
}
