// Package guard tests the policies that are printed for the API server to apply:
// the run-level guard and the warnings at registration.
package guard

import (
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

var (
	suite testenv.Suite
	// unguarded is for the tests that install the guard themselves, one at a time.
	unguarded = suite.Shared(cluster.Options{})
	// guarded has the guard installed.
	guarded = suite.Shared(cluster.Options{WithoutControllers: true}, installGuard)
)

func TestMain(m *testing.M) { suite.Main(m) }

// environment is one of the environments above.
type environment struct{ *testenv.Env }
