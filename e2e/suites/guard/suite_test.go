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
	// guarded has both installed.
	guarded = suite.Shared(cluster.Options{WithoutControllers: true}, installPolicies)
)

func TestMain(m *testing.M) { suite.Main(m) }

type environment struct{ *testenv.Env }
