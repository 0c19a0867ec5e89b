// Package observe compares what is observed of webhooks, and what is predicted of
// their loss, with what the API server does.
package observe

import (
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

var (
	suite testenv.Suite
	stock = suite.Shared(cluster.Options{WithoutControllers: true})
)

func TestMain(m *testing.M) { suite.Main(m) }

type environment struct{ *testenv.Env }
