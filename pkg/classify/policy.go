package classify

import "github.com/webhook-auditor/webhook-auditor/pkg/inventory"

// Policy is everything that a cluster's owner may legitimately decide.
type Policy struct {
	// Classes are the members of the resource classes.
	Classes map[Class][]inventory.Resource
	// PlatformNamespaces are globs of the namespaces whose webhooks belong to
	// the platform rather than to a third party.
	PlatformNamespaces []string
	// LatencyThresholds set the latency in seconds from which a webhook is
	// slow, by webhook name.
	LatencyThresholds map[string]float64
}

// Class is a class of resources.
type Class string

// The classes of the enhancement.
const (
	ClassCritical  Class = "critical"
	ClassVirtual   Class = "virtual"
	ClassSensitive Class = "sensitive"
	ClassCore      Class = "core"
)

// Classes lists all classes.
var Classes = []Class{ClassCritical, ClassVirtual, ClassSensitive, ClassCore}

// DefaultPolicy is the Policy of a cluster whose owner decided nothing.
func DefaultPolicy() Policy { return Policy{} }

func (p Policy) profiles(s *inventory.Snapshot) []Profile {
	out := make([]Profile, len(s.Webhooks))
	for i := range s.Webhooks {
		out[i] = Profile{Webhook: &s.Webhooks[i], Snapshot: s}
	}
	return out
}
