package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/metrics"
)

// TestPolicyIsReloaded changes the Policy of a running auditor: an
// acknowledgement takes a finding off /metrics and back, and a bad file changes
// nothing but what the auditor says of it.
func TestPolicyIsReloaded(t *testing.T) {
	t.Parallel()
	w := use(t, stock)
	b := w.backend(t, "policy-reload")
	must(t, b.DeleteService(t.Context()))
	w.validate(t, b.Namespace, hook(b, "/", rule("", "configmaps")))
	path, err := binary()
	must(t, err)
	file := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, file, "{}")
	a, err := auditor.Start(t.Context(), auditor.Options{Binary: path, Kubeconfig: w.plane.Kubeconfig(), Flags: []string{"--config=" + file}})
	must(t, err)
	t.Cleanup(func() { must(t, a.Stop()) })
	p := followedPolicy{watcher{a, t}, file}
	dead := identity("validating", b.Namespace, b.Namespace+".e2e.example.com")
	acknowledging := fmt.Sprintf("acknowledgements: [{check: service-missing, configuration: %s, reason: it is known}]", b.Namespace)

	p.finds("service-missing", "critical", dead)
	p.reloaded(1)
	write(t, file, acknowledging)
	p.forgets("service-missing", dead)
	p.reloaded(1)
	write(t, file, "acknowledgement: []")
	p.reloaded(0)
	p.forgets("service-missing", dead)
	p.logs(`unknown key \"acknowledgement\"`, 1)
	p.replace("{}") // good again, and renamed as editors do
	p.reloaded(1)
	p.finds("service-missing", "critical", dead)
	p.logs("cannot reload the Policy; the last good one stays in effect", 1)
}

// followedPolicy is an auditor and the file of its Policy.
type followedPolicy struct {
	watcher
	file string
}

// reloaded waits until /metrics says whether the last reload was successful.
func (p followedPolicy) reloaded(successful float64) {
	p.t.Helper()
	p.sees(fmt.Sprintf("reload successful: %v", successful), metrics.Equals(auditor.Prefix+"policy_last_reload_successful", nil, successful))
}

// logs wants the words to be in the log so many times.
func (p followedPolicy) logs(words string, times int) {
	p.t.Helper()
	if n := strings.Count(p.Output(), words); n != times {
		p.t.Errorf("%q is logged %d times, want %d:\n%s", words, n, times, p.Output())
	}
}

// replace renames a new file over the old one.
func (p followedPolicy) replace(content string) {
	p.t.Helper()
	write(p.t, p.file+"~", content)
	must(p.t, os.Rename(p.file+"~", p.file))
}

func write(t *testing.T, file, content string) {
	t.Helper()
	must(t, os.WriteFile(file, []byte(content), 0o600))
}
