// Package findings compares what the checks report with what the API server does.
package findings

import (
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

var (
	suite testenv.Suite
	stock = suite.Shared(cluster.Options{})
	older = suite.Shared(cluster.Options{APIServerFlags: testenv.SendsReviews(), WithoutControllers: true})
)

func TestMain(m *testing.M) { suite.Main(m) }

type environment struct{ *testenv.Env }
