package admission

import "github.com/webhook-auditor/webhook-auditor/pkg/inventory"

// PodWrite is a request that a controller, the scheduler or the kubelet makes for
// a Pod to run.
type PodWrite struct {
	inventory.Resource
	Operation
	// Labeled says that what is written carries the Pod's labels.
	Labeled bool
}

// PodWrites are the requests without which no Pod starts: it is created, placed
// on a node, given a token and reported to run.
var PodWrites = []PodWrite{
	{inventory.Resource{Name: "pods"}, Create, true},
	{inventory.Resource{Name: "pods", Subresource: "binding"}, Create, false},
	{inventory.Resource{Name: "serviceaccounts", Subresource: "token"}, Create, false},
	{inventory.Resource{Name: "pods", Subresource: "status"}, Update, true},
}

// RulesCover reports whether a rule covers the resource in any version: of most
// webhooks no more needs to be asked.
func RulesCover(of *inventory.Registration, r inventory.Resource) bool {
	for i := range of.Rules { // not by value: rules are large, and webhooks many
		if rule := &of.Rules[i]; CoversGroup(rule, r.Group) && coversName(rule.Resources, r) {
			return true
		}
	}
	return false
}
