// Package explain compares what "explain" answers with what the API server does.
package explain

import (
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

var (
	suite testenv.Suite
	stock = suite.Shared(cluster.Options{})
	// emulating has mutating policies, and sends reviews to webhooks.
	emulating = suite.Shared(cluster.Options{APIServerFlags: []string{"--emulated-version=1.36"}, WithoutControllers: true})
	older     = suite.Shared(cluster.Options{APIServerFlags: []string{"--emulated-version=1.34"}, WithoutControllers: true})
)

func TestMain(m *testing.M) { suite.Main(m) }

type environment struct{ *testenv.Env }
