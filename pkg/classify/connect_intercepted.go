package classify

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var connectIntercepted = &Check{
	Name:     "connect-intercepted",
	Summary:  "A webhook with failurePolicy Fail stands between administrators and exec, attach, port-forward or proxy in system namespaces.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		blocked, unsure := brokenGlass(p)
		if len(blocked) == 0 || p.Platform {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("refuses CONNECT to %s in system namespaces while it cannot be called (failurePolicy Fail)%s: that is the way in to repair things", byRule(p, blocked), unsure),
			Fix:     patch(p, excludeRequests(p, `request.operation == "CONNECT"`)),
		}}
	},
}

// brokenGlass returns what administrators connect to in an emergency, and what
// would leave it alone all the same.
func brokenGlass(p *Profile) (blocked []inventory.Resource, unsure string) {
	if !p.FailsClosed() || p.Type == inventory.Conversion {
		return nil, ""
	}
	const namespace = metav1.NamespaceSystem
	for _, r := range p.Matched {
		if !r.Operations.Has(admission.Connect) || r.Group != "" {
			continue
		}
		verdict := p.Matcher.Intercepts(p.Webhook, r.Resource, admission.Connect, namespace)
		if verdict.Presumed() {
			unsure = unless(p.Webhook, []string{namespace})
		}
		if verdict.Presumed() || verdict.Match == admission.Yes {
			blocked = append(blocked, r.Resource)
		}
	}
	return blocked, unsure
}
