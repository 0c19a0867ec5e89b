package classify

import (
	"fmt"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
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
		return blocked(p)
	},
	FindPolicy: func(p *PolicyProfile) []Problem {
		if !p.FailsClosed() || p.Platform || p.Absent {
			return nil
		}
		return refused(p)
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
	{inventory.Resource{Name: "pods"}, admission.Create, map[string]string{"app.kubernetes.io/name": "webhook-auditor"}, "its Pods"},
	{inventory.Resource{Group: "coordination.k8s.io", Name: "leases"}, admission.Update, admission.Unlabeled, "its lease"},
}

// blocked looks at the namespaces that exist: where webhook-auditor is not
// installed, nothing of it can be blocked.
func blocked(p *Profile) []Problem {
	var what, where []string
	var resources []inventory.Resource
	severity := Info
	for _, namespace := range p.Policy.AuditorNamespaces {
		if _, installed := p.Snapshot.Namespaces[namespace]; !installed {
			continue
		}
		for _, n := range auditorNeeds {
			subject := admission.Subject{Namespace: namespace, Labels: n.labels}
			switch p.Matcher.InterceptsSubject(p.Webhook, n.resource, n.operation, subject).Match {
			case admission.No:
				continue
			case admission.Yes:
				severity = Warning
			}
			what = append(what, n.name)
			resources = append(resources, n.resource)
			where = append(where, namespace)
		}
	}
	if len(where) == 0 {
		return nil
	}
	what, where = text.Distinct(what), text.Distinct(where)
	return []Problem{{
		Severity: severity,
		Message:  fmt.Sprintf("can keep webhook-auditor from working through %s: while it cannot be called, requests for %s in %s are refused (failurePolicy Fail)", rulesFor(p, resources), JoinBounded(what), JoinBounded(where)),
		Fix:      patch(p, excludeNamespaces(p, where)),
	}}
}

// refused is blocked for an admission policy, which has no backend to lose: what it
// surely refuses is a warning, what it may refuse is worth knowing.
func refused(p *PolicyProfile) []Problem {
	var what, where []string
	severity := Info
	for _, namespace := range p.Policy.AuditorNamespaces {
		if _, installed := p.Snapshot.Namespaces[namespace]; !installed {
			continue
		}
		for _, n := range auditorNeeds {
			request, err := p.Matcher.Request(n.operation, n.resource, admission.Subject{Namespace: namespace, Labels: n.labels})
			if err != nil || !p.isEvaluatedFor(request) {
				continue
			}
			if p.Matcher.MatchPolicy(request, p.AdmissionPolicy, nil).Refused {
				severity = Warning
			}
			what, where = append(what, n.name), append(where, namespace)
		}
	}
	if len(where) == 0 {
		return nil
	}
	what, where = text.Distinct(what), text.Distinct(where)
	return []Problem{{
		Severity: severity,
		Message:  fmt.Sprintf("can keep webhook-auditor from working: where one of its expressions fails, or its params are missing, requests for %s in %s are refused (failurePolicy Fail)", JoinBounded(what), JoinBounded(where)),
		Fix:      fmt.Sprintf("leave %s out by the namespaceSelector of %s%s", JoinBounded(where), objectName(&p.Registration), changedBy(p.Object.Owner)),
	}}
}
