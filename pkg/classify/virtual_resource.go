package classify

import (
	"fmt"
	"slices"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var virtualResource = &Check{
	Name:     "virtual-resource",
	Summary:  "A webhook intercepts resources that are never stored, such as subjectaccessreviews or bindings.",
	Severity: Critical,
	Condition: map[inventory.Type]string{
		inventory.Mutating:   "VirtualResourceAdmissionError",
		inventory.Validating: "VirtualResourceAdmissionError",
	},
	Reason: "AdmissionWebhookMatchesVirtualResource",
	Alerts: map[Severity]string{Critical: "WebhookOnVirtualResource"},
	For:    5 * time.Minute,
	Find:   findVirtualResource,
}

func findVirtualResource(p Profile) []Problem {
	virtual := p.Reach[ClassVirtual]
	if len(virtual) == 0 {
		return nil
	}
	return []Problem{{
		Severity: virtualSeverity(p, virtual),
		Message:  fmt.Sprintf("intercepts %s, which are never stored but decide on every login, authorization or scheduling (failurePolicy %s)", byRule(p, virtual), p.FailurePolicy),
		Fix:      fmt.Sprintf("take them out of the rules of %s, or exclude them: %s", object(p), patch(p, excludeRequests(p, requestsTo(virtual)))),
	}}
}

// virtualSeverity: with failurePolicy Ignore a webhook that asks for them by
// name still delays and reads them; a mere wildcard shows no intent.
func virtualSeverity(p Profile, virtual []inventory.Resource) Severity {
	if p.FailsClosed() {
		return Critical
	}
	for _, r := range p.Reached {
		if r.Named && slices.Contains(virtual, r.Resource) {
			return Warning
		}
	}
	return Info
}
