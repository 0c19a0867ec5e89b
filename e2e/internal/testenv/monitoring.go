package testenv

import (
	"path/filepath"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
)

// Monitor runs a Prometheus that scrapes the API server, and an Alertmanager, until the
// end of the test.
func (e *Env) Monitor(t testing.TB, o monitoring.Options) *monitoring.Stack {
	t.Helper()
	binaries := Get(programs.Monitoring())(t)
	root := Get(programs.Root())(t)
	o.Binaries, o.Auditor, o.Routes, o.APIServer = binaries, Binary(t), filepath.Join(root, "rules/alertmanager.yaml"), e.Plane.Config()
	stack := Get(monitoring.Start(t.Context(), o))(t)
	t.Cleanup(func() { Must(t, stack.Stop()) })
	return stack
}
