// Package page opens the status page, as served and as a file, in Chromium.
package page

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
