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
		blocked, certain := blockedDeletions(p)
		if len(blocked) == 0 {
			return nil
		}
		condition := ""
		if !certain {
			condition = ", unless a matchCondition is false"
		}
		return []Problem{{
			Message: fmt.Sprintf("is called when things go away, for %s: while it cannot be called, %s (failurePolicy Fail)%s", byRule(p, blocked), sentence(stopped(blocked), 0), condition),
			Fix:     patch(p, excludeRequests(p, goingAway(blocked))),
		}}
	},
}

// deletion is an operation by which things go away, what stops while it is refused, and
// who asks for it: people where that is nil.
type deletion struct {
	by    admission.Operation
	stops string
	users []*admission.User
}

var (
	kubelet             = admission.NewUser("system:node:node", []string{"system:nodes"})
	garbageCollector    = admission.NewUser("system:serviceaccount:kube-system:generic-garbage-collector", nil)
	namespaceController = admission.NewUser("system:serviceaccount:kube-system:namespace-controller", nil)
)

// blockedDeletions are those that the webhook is called for, and whether one of
// these calls is certain, whatever its matchConditions say of what is not known.
func blockedDeletions(p *Profile) (blocked []inventory.Resource, certain bool) {
	for _, r := range p.Matched {
		d, ok := deletions[r.Resource]
		if !ok || !r.Operations.Has(d.by) {
			continue
		}
		called := admission.No
		for _, user := range d.users {
			if by := p.Matcher.CallsFor(p.Webhook, r.Resource, d.by, user); called == admission.No || by == admission.Yes {
				called = by
			}
		}
		if called != admission.No {
			blocked = append(blocked, r.Resource)
			certain = certain || called == admission.Yes
		}
	}
	return blocked, certain
}

// deletions are those of all that goes away. A kubelet deletes a Pod when its containers
// have ended, so that drains wait for that too.
var deletions = map[inventory.Resource]deletion{
	{Name: "namespaces"}:                          {admission.Delete, "namespaces cannot be deleted", []*admission.User{nil}},
	{Name: "namespaces", Subresource: "finalize"}: {admission.Update, "namespaces stay Terminating", []*admission.User{namespaceController}},
	{Name: "pods"}:                                {admission.Delete, "Pods are never gone, for which garbage collection, node drains and Terminating namespaces wait", []*admission.User{kubelet, garbageCollector, namespaceController}},
	{Name: "pods", Subresource: "eviction"}:       {admission.Create, "node drains stop", []*admission.User{nil}},
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
