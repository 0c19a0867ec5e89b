package classify

import (
	"fmt"
	"slices"

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
		blocked, certain := blockedDeletions(p)
		if len(blocked) == 0 {
			return nil
		}
		resources, stops := make([]inventory.Resource, len(blocked)), make([]string, len(blocked))
		for i, d := range blocked {
			resources[i], stops[i] = d.Resource, d.stops
		}
		condition := ""
		if !certain {
			condition = ", unless a matchCondition is false"
		}
		return []Problem{{
			Message: fmt.Sprintf("is called when things go away, for %s: while it cannot be called, %s (failurePolicy Fail)%s", byRule(p, resources), sentence(stops, 0), condition),
			Brief:   fmt.Sprintf("while it is down, %s%s", sentence(stops, 0), condition),
			Fix:     patch(p, excludeRequests(p, goingAway(resources))),
		}}
	},
}

// deletion is an operation by which things go away, what stops while it is refused, and
// who asks for it: people where that is nil.
type deletion struct {
	inventory.Resource
	by    admission.Operation
	stops string
	users []*admission.User
}

// blockedDeletions are those that the webhook is called for, one of each resource, and
// whether one of these calls is certain, whatever its matchConditions say of what is not
// known.
func blockedDeletions(p *Profile) (blocked []deletion, certain bool) {
	for _, d := range deletions {
		asked := slices.ContainsFunc(p.Matched, func(r admission.MatchedResource) bool { return r.Resource == d.Resource && r.Operations.Has(d.by) })
		if !asked || slices.ContainsFunc(blocked, func(b deletion) bool { return b.Resource == d.Resource }) {
			continue
		}
		called := callsForAny(p, d.Resource, d.by, d.users)
		if called != admission.No {
			blocked = append(blocked, d)
			certain = certain || called == admission.Yes
		}
	}
	return blocked, certain
}

// callsForAny is yes where the webhook is called for one of the users, and no where it is
// called for none, as far as its matchConditions decide.
func callsForAny(p *Profile, r inventory.Resource, op admission.Operation, users []*admission.User) admission.Match {
	called := admission.No
	for _, user := range users {
		if by := p.Matcher.CallsFor(p.Webhook, r, op, admission.Subject{User: user}); called == admission.No || by == admission.Yes {
			called = by
		}
	}
	return called
}

// deletions are those of all that goes away, the gravest of a resource first. A kubelet
// deletes a Pod when its containers have ended, so that drains wait for that too.
var deletions = []deletion{
	{inventory.Resource{Name: "namespaces"}, admission.Delete, "namespaces cannot be deleted", []*admission.User{nil}},
	{inventory.Resource{Name: "namespaces", Subresource: "finalize"}, admission.Update, "namespaces stay Terminating", []*admission.User{namespaceController}},
	{inventory.Resource{Name: "pods"}, admission.Delete, "Pods are never gone, for which garbage collection, node drains and Terminating namespaces wait", []*admission.User{kubelet}},
	{inventory.Resource{Name: "pods"}, admission.Delete, "garbage collection and Terminating namespaces leave Pods behind", []*admission.User{garbageCollector, namespaceController}},
	{inventory.Resource{Name: "pods", Subresource: "eviction"}, admission.Create, "node drains stop", []*admission.User{nil}},
}

// goingAway is the CEL expression that is true for the deletions. Requests that
// are about no subresource lack the field, and reading it would refuse them.
func goingAway(blocked []inventory.Resource) string {
	return fmt.Sprintf(`(%s) && (request.operation == "DELETE" || has(request.subResource) && request.subResource in ["eviction", "finalize"])`, requestsTo(blocked))
}
