// Package environment holds what the other suites rest on: that the environment they
// share is a control plane like any other, whose webhooks work and break as they do in
// a cluster.
package environment

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
