package classify

import (
	"cmp"
	"fmt"
	"slices"
	"time"

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
		switch {
		case p.Platform || len(p.ControlPlane) == 0:
			return nil
		case p.FailsClosed():
			return []Problem{blocksControlPlane(p)}
		}
		return delaysControlPlane(p)
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

func blocksControlPlane(p *Profile) Problem {
	severity, sure := certainty(p.ControlPlane)
	return Problem{
		Severity: severity,
		Message: fmt.Sprintf("%s on the path of the control plane through %s: while it cannot be called, %s are refused (failurePolicy Fail)%s",
			isOrMayBe(severity), rulesFor(p, resourcesOf(sure)), controlPlaneNames(sure),
			unlessOf(p, sure)+withoutNewNamespaces(p)),
		Brief: fmt.Sprintf("while it is down, requests for %s are refused%s", controlPlaneNames(sure), unlessOf(p, sure)),
		Fix:   patch(p, leaveAlone(p, p.ControlPlane)...),
	}
}

// delaysControlPlane: with failurePolicy Ignore a hanging backend costs the
// timeout; clients of the API server give up first where that is long.
func delaysControlPlane(p *Profile) []Problem {
	if limit := usefulTimeout(p, p.Policy.ControlPlaneTimeoutSeconds); p.Timeout > limit {
		return []Problem{delay(p, p.ControlPlane, limit)}
	}
	leases := slices.DeleteFunc(slices.Clone(p.ControlPlane), func(v ControlPlaneMatch) bool {
		return v.Resource != inventory.Resource{Group: "coordination.k8s.io", Name: "leases"} || v.Namespace != "kube-system"
	})
	if limit := secondsOf(p.Policy.LeaseTimeoutSeconds); p.Timeout > limit && len(leases) > 0 {
		return []Problem{delay(p, leases, limit)}
	}
	return nil
}

func delay(p *Profile, matches []ControlPlaneMatch, limit time.Duration) Problem {
	severity, sure := certainty(matches)
	what := fmt.Sprintf("wait %s in spite of failurePolicy Ignore, longer than those who write them have", text.Seconds(p.Timeout))
	if by, alone := endedAlone(p); alone {
		what = fmt.Sprintf("are refused in spite of failurePolicy Ignore: its %s are not within %s", text.Seconds(p.Timeout), by)
	}
	return Problem{
		Severity: severity,
		Message: fmt.Sprintf("%s on the path of the control plane through %s: while its backend hangs, %s %s%s",
			isOrMayBe(severity), rulesFor(p, resourcesOf(sure)), controlPlaneNames(sure), what, unlessOf(p, sure)),
		Brief: fmt.Sprintf("while its backend hangs, %s %s%s", controlPlaneNames(sure), what, unlessOf(p, sure)),
		Fix:   patch(p, shorten(p, int(limit.Seconds()))),
	}
}

func resourcesOf(matches []ControlPlaneMatch) []inventory.Resource {
	return text.Map(matches, func(v ControlPlaneMatch) inventory.Resource { return v.Resource })
}

// certainty returns what the webhook is certainly called for, as a warning. What
// it may be called for is worth knowing where there is nothing else.
func certainty(matches []ControlPlaneMatch) (Severity, []ControlPlaneMatch) {
	sure := slices.DeleteFunc(slices.Clone(matches), func(v ControlPlaneMatch) bool { return v.Match != admission.Yes })
	if len(sure) == 0 {
		return Info, matches
	}
	return Warning, sure
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

// leaveAlone keeps the webhook off the path: by namespace where there is one,
// else by a matchCondition, for a namespaceSelector never exempts a
// cluster-scoped resource.
func leaveAlone(p *Profile, matches []ControlPlaneMatch) []edit {
	var namespaces []string
	var clusterScoped []inventory.Resource
	for _, v := range matches {
		switch {
		case v.Namespace == "":
			clusterScoped = append(clusterScoped, v.Resource)
		case !slices.Contains(namespaces, v.Namespace):
			namespaces = append(namespaces, v.Namespace)
		}
	}
	slices.Sort(namespaces)
	var out []edit
	if len(namespaces) > 0 {
		out = append(out, excludeNamespaces(p, namespaces))
	}
	if len(clusterScoped) > 0 {
		out = append(out, excludeRequests(p, byServerOr(requestsTo(clusterScoped), clusterScoped)))
	}
	return out
}

// byServerOr adds the requests of the API server itself, where it writes one of the
// resources: it also writes in whichever namespace, and a later release writes more.
func byServerOr(requests string, resources []inventory.Resource) string {
	isWritten := func(w admission.ServerWrite) bool { return slices.Contains(resources, w.Resource) }
	if !slices.ContainsFunc(admission.ServerWrites, isWritten) {
		return requests
	}
	return fmt.Sprintf("request.userInfo.username == %q || %s", admission.APIServerUser, requests)
}
