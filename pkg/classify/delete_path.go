package classify

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
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
		blocked, condition := blockedDeletions(p, admission.Yes), ""
		if len(blocked) == 0 { // what its matchConditions read need not be known
			condition = ", unless a matchCondition is false"
		}
		for _, d := range blockedDeletions(p, admission.Maybe) {
			if condition == "" {
				d.stops = "perhaps " + d.stops
			}
			if !slices.ContainsFunc(blocked, func(b deletion) bool { return b.Resource == d.Resource }) {
				blocked = append(blocked, d)
			}
		}
		if len(blocked) == 0 {
			return nil
		}
		resources := lists.Map(blocked, func(d deletion) inventory.Resource { return d.Resource })
		stops := sentence(lists.Map(blocked, func(d deletion) string { return d.stops }), 0)
		return []Problem{{
			Message: fmt.Sprintf("is called when things go away, for %s: while it cannot be called, %s (failurePolicy Fail)%s", byRule(p, resources), stops, condition),
			Brief:   fmt.Sprintf("while it is down, %s%s", stops, condition),
			Fix:     patch(p, excludeRequests(p, goingAway(resources))...),
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
}

// blockedDeletions are those for which the webhook is called so surely for one of the users, as
// far as its matchConditions decide, one of each resource.
func blockedDeletions(p *Profile, match admission.Match) (blocked []deletion) {
	for _, d := range deletions {
		isCalled := func(user *admission.User) bool {
			return p.Matcher.CallsFor(p.Webhook, d.Resource, d.operation, admission.Subject{User: user}) == match
		}
		isBlocked := func(b deletion) bool { return b.Resource == d.Resource }
		if p.operations(d.Resource).Has(d.operation) && !slices.ContainsFunc(blocked, isBlocked) &&
			slices.ContainsFunc(d.users, isCalled) {
			blocked = append(blocked, d)
		}
	}
	return blocked
}

// deletions are those of all that goes away, the gravest of a resource first. A kubelet
// deletes a Pod when its containers have ended, so that drains wait for that too.
var deletions = []deletion{
	{inventory.Resource{Name: "namespaces"}, admission.Delete, "namespaces cannot be deleted", []*admission.User{nil}},
	{inventory.Resource{Name: "namespaces", Subresource: "finalize"}, admission.Update, "namespaces stay Terminating", []*admission.User{namespaceController}},
	{pods, admission.Delete, "Pods are never gone, for which garbage collection, node drains and Terminating namespaces wait", []*admission.User{kubelet}},
	{pods, admission.Delete, "garbage collection and Terminating namespaces leave Pods behind", []*admission.User{garbageCollector, namespaceController}},
	{inventory.Resource{Name: "pods", Subresource: "eviction"}, admission.Create, "node drains stop", []*admission.User{nil}},
}

// goingAway is the CEL expression that is true for the deletions. Requests that
// are about no subresource lack the field, and reading it would refuse them.
func goingAway(blocked []inventory.Resource) string {
	return fmt.Sprintf(`(%s) && (request.operation == "DELETE" || has(request.subResource) && request.subResource in ["eviction", "finalize"])`, requestsTo(blocked))
}

var connectIntercepted = &Check{
	Name:     "connect-intercepted",
	Summary:  "A webhook with failurePolicy Fail stands between administrators and exec, attach, port-forward or proxy in system namespaces.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if p.Platform || !p.FailsClosed() || p.Type == inventory.Conversion {
			return nil
		}
		var blocked []inventory.Resource
		unsure := ""
		for _, r := range p.Matched {
			if !r.Operations.Has(admission.Connect) || r.Group != "" {
				continue
			}
			verdict := p.Matcher.Intercepts(p.Webhook, r.Resource, admission.Connect, metav1.NamespaceSystem)
			if verdict.Presumed() {
				unsure = unless(p.Webhook, []string{metav1.NamespaceSystem})
			}
			if verdict.Presumed() || verdict.Match == admission.Yes {
				blocked = append(blocked, r.Resource)
			}
		}
		if len(blocked) == 0 {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("refuses CONNECT to %s in system namespaces while it cannot be called (failurePolicy Fail)%s: that is the way in to repair things", byRule(p, blocked), unsure),
			Fix:     patch(p, excludeRequests(p, `request.operation == "CONNECT"`)...),
		}}
	},
}
