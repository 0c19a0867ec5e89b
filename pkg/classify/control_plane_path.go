package classify

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var controlPlanePath = &Check{
	Name:     "control-plane-path",
	Summary:  "A webhook can keep nodes from joining, a control plane down or leaders from leading.",
	Severity: Warning,
	Alerts:   map[Severity]string{Warning: "WebhookControlPlanePath"},
	For:      15 * time.Minute,
	Find: func(p *Profile) []Problem {
		// With failurePolicy Ignore a hanging backend costs the timeout; clients of the API server give
		// up first where that is long.
		limit := usefulTimeout(p, p.Policy.ControlPlaneTimeoutSeconds)
		limitOfLeases := secondsOf(p.Policy.LeaseTimeoutSeconds)
		leases := slices.DeleteFunc(slices.Clone(p.ControlPlane), func(v ControlPlaneMatch) bool {
			return v.Resource != inventory.Resource{Group: "coordination.k8s.io", Name: "leases"} || v.Namespace != "kube-system"
		})
		switch {
		case p.Platform || len(p.ControlPlane) == 0:
			return nil
		case p.FailsClosed():
			return onPath(p, p.ControlPlane, leaveAlone(p, p.ControlPlane)...)
		case p.Timeout > limit:
			return onPath(p, p.ControlPlane, shorten(p, int(limit.Seconds())))
		case p.Timeout > limitOfLeases && len(leases) > 0:
			return onPath(p, leases, shorten(p, p.Policy.LeaseTimeoutSeconds))
		}
		return nil
	},
	FindPolicy: func(p *PolicyProfile) []Problem {
		matches := p.controlPlane()
		if len(matches) == 0 || p.Platform {
			return nil
		}
		return []Problem{{
			Severity: Info, // there is no backend to lose
			Message:  fmt.Sprintf("is on the path of the control plane: where one of its expressions fails, or its params are missing, %s are refused (failurePolicy Fail)", controlPlaneNames(matches)),
			Brief:    fmt.Sprintf("where an expression fails, or its params are missing, requests for %s are refused", controlPlaneNames(matches)),
			Fix:      fmt.Sprintf("leave them out by the matchConstraints or the namespaceSelector of %s%s", objectName(&p.Registration), changedBy(p.Object.Owner)),
		}}
	},
}

// onPath is about the requests that the webhook is certainly called for, as a warning. What it may
// be called for is worth knowing where there is nothing else.
func onPath(p *Profile, matches []ControlPlaneMatch, edits ...edit) []Problem {
	sure := slices.DeleteFunc(slices.Clone(matches), func(v ControlPlaneMatch) bool { return v.Match != admission.Yes })
	severity := warningIf(len(sure) > 0)
	if len(sure) == 0 {
		sure = matches
	}
	requests, unless, more := controlPlaneNames(sure), unlessOf(p, sure), ""
	what := fmt.Sprintf("while its backend hangs, %s wait %s in spite of failurePolicy Ignore, longer than those who write them have", requests, text.Seconds(p.Timeout))
	if limit, alone := endedAlone(p); alone {
		what = fmt.Sprintf("while its backend hangs, %s are refused in spite of failurePolicy Ignore: its %s are not within %s", requests, text.Seconds(p.Timeout), limit)
	}
	brief := what
	if p.FailsClosed() {
		what = fmt.Sprintf("while it cannot be called, %s are refused (failurePolicy Fail)", requests)
		brief, more = fmt.Sprintf("while it is down, requests for %s are refused", requests), withoutNewNamespaces(p)
	}
	rules := rulesFor(p, lists.Map(sure, func(v ControlPlaneMatch) inventory.Resource { return v.Resource }))
	return []Problem{{
		Severity: severity,
		Message: fmt.Sprintf("%s on the path of the control plane through %s: %s%s%s",
			isOrMayBe(severity), rules, what, unless, more),
		Brief: brief + unless,
		Fix:   patch(p, edits...),
	}}
}

func isOrMayBe(s Severity) string {
	if s == Info {
		return "may be"
	}
	return "is"
}

// unlessOf says what would keep the webhook off the path; "" where nothing
// would.
func unlessOf(p *Profile, matches []ControlPlaneMatch) string {
	var namespaces []string
	decided := true
	for _, v := range matches {
		decided = decided && v.Match == admission.Yes
		if v.Match == admission.Maybe && v.Reason == admission.ReasonNamespaceSelector {
			namespaces = append(namespaces, cmp.Or(v.Namespace, "the namespace"))
		}
	}
	if decided {
		return ""
	}
	return unless(p.Webhook, namespaces)
}

// controlPlaneNames names what is on the path: "nodes, leases… in kube-system".
func controlPlaneNames(matches []ControlPlaneMatch) string {
	names := make([]string, len(matches))
	for i, v := range matches {
		names[i] = v.String()
		switch {
		case v.Namespace != "" && v.IsNamespaces():
			names[i] += " of " + v.Namespace
		case v.Namespace != "":
			names[i] += " in " + v.Namespace
		}
	}
	return JoinBounded(names)
}

// leaveAlone keeps the webhook off the path: by namespace where there is one, else by a
// matchCondition, for a namespaceSelector never exempts a cluster-scoped resource. Where the API
// server itself writes one of these, it exempts all of its requests: it also writes in whichever
// namespace, and a later release writes more.
func leaveAlone(p *Profile, matches []ControlPlaneMatch) []edit {
	var namespaces []string
	var clusterScoped []inventory.Resource
	for _, v := range matches {
		if v.Namespace == "" {
			clusterScoped = append(clusterScoped, v.Resource)
		} else {
			namespaces = append(namespaces, v.Namespace)
		}
	}
	var out []edit
	if len(namespaces) > 0 {
		out = append(out, excludeNamespaces(p, lists.Distinct(namespaces))...)
	}
	requests := requestsTo(clusterScoped)
	if slices.ContainsFunc(admission.ServerWrites,
		func(w admission.ServerWrite) bool { return slices.Contains(clusterScoped, w.Resource) }) {
		requests = fmt.Sprintf("request.userInfo.username == %q || %s", admission.APIServerUser, requests)
	}
	if len(clusterScoped) > 0 {
		out = append(out, excludeRequests(p, requests)...)
	}
	return out
}
