package classify

import (
	"math/rand/v2"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest/mixed"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// CrowdSnapshot is that of n webhooks of the crowd.
func CrowdSnapshot(name string, n int) *inventory.Snapshot {
	return crowdCalled(name).objects(n).Snapshot(taken)
}

// MixedSnapshot is the same for each seed.
func MixedSnapshot(seed uint64) *inventory.Snapshot {
	return mixed.Cluster(rand.New(rand.NewPCG(seed, 0))).Snapshot(taken)
}
