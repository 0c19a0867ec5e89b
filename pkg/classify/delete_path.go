package classify

import (
	"cmp"
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
		if !p.FailsClosed() || p.Type == inventory.Conversion || p.Platform || optIn(p.NamespaceSelector) ||
			optIn(p.ObjectSelector) {
			return nil
		}
		blocked := blockedDeletions(p)
		if len(blocked) == 0 {
			return nil
		}
		condition := ""
		if blocked[0].called == admission.Maybe {
			condition = ", unless a matchCondition is false"
		}
		resources, stops := make([]inventory.Resource, len(blocked)), make([]string, len(blocked))
		for i, d := range blocked {
			resources[i], stops[i] = d.Resource, d.stops
			if d.called == admission.Maybe && condition == "" {
				stops[i] = "perhaps " + d.stops
			}
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
	operation admission.Operation
	stops     string
	users     []*admission.User
	// called is how sure it is that the webhook is called for it, where it is looked for.
	called admission.Match
}

// blockedDeletions are those that the webhook is called for, one of each resource, the
// certain ones first: what its matchConditions read need not be known.
func blockedDeletions(p *Profile) (blocked []deletion) {
	for _, d := range deletions {
		asked := slices.ContainsFunc(p.Matched, func(r admission.MatchedResource) bool {
			return r.Resource == d.Resource && r.Operations.Has(d.operation)
		})
		if !asked || slices.ContainsFunc(blocked, func(b deletion) bool { return b.Resource == d.Resource }) {
			continue
		}
		if d.called = callsForAny(p, d.Resource, d.operation, d.users); d.called != admission.No {
			blocked = append(blocked, d)
		}
	}
	slices.SortStableFunc(blocked, func(a, b deletion) int { return cmp.Compare(b.called, a.called) })
	return blocked
}

// callsForAny is yes where the webhook is called for one of the users, and no where it is
// called for none, as far as its matchConditions decide.
func callsForAny(p *Profile, r inventory.Resource, op admission.Operation, users []*admission.User) admission.Match {
	called := admission.No
	for _, user := range users {
		if by := p.Matcher.CallsFor(p.Webhook, r, op, admission.Subject{User: user}); called == admission.No ||
			by == admission.Yes {
			called = by
		}
	}
	return called
}

// deletions are those of all that goes away, the gravest of a resource first. A kubelet
// deletes a Pod when its containers have ended, so that drains wait for that too.
var deletions = []deletion{
	{inventory.Resource{Name: "namespaces"}, admission.Delete, "namespaces cannot be deleted", []*admission.User{nil}, admission.No},
	{
		inventory.Resource{Name: "namespaces", Subresource: "finalize"},
		admission.Update, "namespaces stay Terminating",
		[]*admission.User{namespaceController},
		admission.No,
	},
	{inventory.Resource{Name: "pods"}, admission.Delete, "Pods are never gone, for which garbage collection, node drains and Terminating namespaces wait", []*admission.User{kubelet}, admission.No},
	{
		inventory.Resource{Name: "pods"},
		admission.Delete, "garbage collection and Terminating namespaces leave Pods behind",
		[]*admission.User{garbageCollector, namespaceController},
		admission.No,
	},
	{inventory.Resource{Name: "pods", Subresource: "eviction"}, admission.Create, "node drains stop", []*admission.User{nil}, admission.No},
}

// goingAway is the CEL expression that is true for the deletions. Requests that
// are about no subresource lack the field, and reading it would refuse them.
func goingAway(blocked []inventory.Resource) string {
	return fmt.Sprintf(`(%s) && (request.operation == "DELETE" || has(request.subResource) && request.subResource in ["eviction", "finalize"])`, requestsTo(blocked))
}
