package classify

import (
	"fmt"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var blocksAuditor = &Check{
	Name:     "blocks-auditor",
	Summary:  "A webhook can keep webhook-auditor itself from starting, or from keeping its lease.",
	Severity: Warning,
	Alerts:   map[Severity]string{Warning: "WebhookBlocksAuditor"},
	For:      15 * time.Minute,
	Find: func(p *Profile) []Problem {
		if !p.FailsClosed() || p.Type == inventory.Conversion || p.Platform {
			return nil
		}
		refuses := func(r admission.Request) admission.Match { return r.Match(p.Webhook).Match }
		needs := needsRefused(p.Matcher, p.Policy, refuses)
		if len(needs.where) == 0 {
			return nil
		}
		return []Problem{{
			Severity: needs.severity,
			Message:  fmt.Sprintf("can keep webhook-auditor from working through %s: while it cannot be called, requests for %s in %s are refused (failurePolicy Fail)", rulesFor(p, needs.resources), JoinBounded(needs.what), JoinBounded(needs.where)),
			Fix:      patch(p, excludeNamespaces(p, needs.where)...),
		}}
	},
	FindPolicy: func(p *PolicyProfile) []Problem {
		if !p.FailsClosed() || p.Platform || p.Absent {
			return nil
		}
		// It has no backend to lose: what it surely refuses is a warning, what it may refuse is
		// worth knowing.
		needs := needsRefused(p.Matcher, p.Policy, func(r admission.Request) admission.Match {
			switch {
			case !p.isEvaluatedFor(r):
				return admission.No
			case p.Matcher.MatchPolicy(r, p.AdmissionPolicy, nil).Refused:
				return admission.Yes
			}
			return admission.Maybe
		})
		if len(needs.where) == 0 {
			return nil
		}
		return []Problem{{
			Severity: needs.severity,
			Message:  fmt.Sprintf("can keep webhook-auditor from working: where one of its expressions fails, or its params are missing, requests for %s in %s are refused (failurePolicy Fail)", JoinBounded(needs.what), JoinBounded(needs.where)),
			Fix:      fmt.Sprintf("leave %s out by the namespaceSelector of %s%s", JoinBounded(needs.where), objectName(&p.Registration), changedBy(p.Object.Owner)),
		}}
	},
}

// auditorNeeds are the requests without which the auditor does not start or
// cannot elect who writes.
var auditorNeeds = []struct {
	resource  inventory.Resource
	operation admission.Operation
	labels    map[string]string
	name      string
}{
	{pods, admission.Create, map[string]string{"app.kubernetes.io/name": "webhook-auditor"}, "its Pods"},
	{inventory.Resource{Group: "coordination.k8s.io", Name: "leases"}, admission.Update, admission.Unlabeled, "its lease"},
}

// refusedNeeds are needs of the auditor that may be refused, in the namespaces that exist: where
// webhook-auditor is not installed, nothing of it can be blocked.
type refusedNeeds struct {
	severity    Severity
	what, where []string
	resources   []inventory.Resource
}

func needsRefused(m *admission.Matcher, p *Policy, refuses func(admission.Request) admission.Match) refusedNeeds {
	out := refusedNeeds{severity: Info}
	for _, namespace := range p.AuditorNamespaces {
		_, installed := m.Snapshot.Namespaces[namespace]
		for _, n := range auditorNeeds {
			subject := admission.Subject{Namespace: namespace, Labels: n.labels}
			request, err := m.Request(n.operation, n.resource, subject)
			if !installed || err != nil || refuses(request) == admission.No {
				continue
			}
			if refuses(request) == admission.Yes {
				out.severity = Warning
			}
			out.what, out.where = append(out.what, n.name), append(out.where, namespace)
			out.resources = append(out.resources, n.resource)
		}
	}
	out.what, out.where = lists.Distinct(out.what), lists.Distinct(out.where)
	return out
}
