// Package inputs tests what the commands read: clusters with all and with few
// permissions, files, directories and archives.
package inputs

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
