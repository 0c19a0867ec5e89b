package classify

import (
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var deletePath = &Check{
	Name:     "delete-path",
	Summary:  "A webhook with failurePolicy Fail stands in the way of deleting or evicting Pods, or deleting namespaces.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if !p.FailsClosed() || p.Type == inventory.Conversion || p.Platform || optIn(p.NamespaceSelector) || optIn(p.ObjectSelector) {
			return nil
		}
		var blocked []inventory.Resource
		for _, r := range p.Matched {
			if d, ok := deletions[r.Resource]; ok && r.Operations.Has(d.by) {
				blocked = append(blocked, r.Resource)
			}
		}
		if len(blocked) == 0 {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("is called when things go away, for %s: while it cannot be called, %s (failurePolicy Fail)", byRule(p, blocked), sentence(stopped(blocked), 0)),
			Fix:     patch(p, excludeRequests(p, goingAway(blocked))),
		}}
	},
}

// deletion is an operation by which things go away, and what stops while it is refused.
type deletion struct {
	by    admission.Operation
	stops string
}

// deletions are those of all that goes away. A kubelet deletes a Pod when its containers
// have ended, so that drains wait for that too.
var deletions = map[inventory.Resource]deletion{
	{Name: "namespaces"}:                          {admission.Delete, "namespaces cannot be deleted"},
	{Name: "namespaces", Subresource: "finalize"}: {admission.Update, "namespaces stay Terminating"},
	{Name: "pods"}:                                {admission.Delete, "Pods are never gone, for which garbage collection, node drains and Terminating namespaces wait"},
	{Name: "pods", Subresource: "eviction"}:       {admission.Create, "node drains stop"},
}

// stopped says what stops while the deletions are refused.
func stopped(blocked []inventory.Resource) []string {
	var out []string
	for _, r := range blocked {
		out = append(out, deletions[r].stops)
	}
	return out
}

// goingAway is the CEL expression that is true for the deletions. Requests that
// are about no subresource lack the field, and reading it would refuse them.
func goingAway(blocked []inventory.Resource) string {
	return fmt.Sprintf(`(%s) && (request.operation == "DELETE" || has(request.subResource) && request.subResource in ["eviction", "finalize"])`, requestsTo(blocked))
}
