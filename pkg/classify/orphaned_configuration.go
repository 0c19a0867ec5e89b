package classify

import (
	"fmt"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var orphanedConfiguration = &Check{
	Name:     "orphaned-configuration",
	Summary:  "A webhook outlived the namespace that its backend runs in, or is about to.",
	Severity: Warning,
	Alerts:   map[Severity]string{Warning: "WebhookOrphanedConfiguration"},
	For:      5 * time.Minute,
	Find: func(p *Profile) []Problem {
		if p.Webhook.Backend.Kind != inventory.BackendService {
			return nil
		}
		state := namespaceState(p.Snapshot, p.Webhook.Backend.Namespace())
		if state == "" {
			return nil
		}
		return []Problem{{
			Severity: warningIf(p.Type != inventory.Conversion ||
				p.Matcher.ConversionNeed(p.CRD) > admission.NeverConverted), // which is never called
			Message: fmt.Sprintf("is left over: namespace %s, where its Service is, %s", p.Webhook.Backend.Namespace(), state),
			Fix:     removal(p),
		}}
	},
}

// namespaceState says what became of the namespace, "" if it exists. One in which a
// Service is known exists, whether or not the input holds it.
func namespaceState(s *inventory.Snapshot, namespace string) string {
	ns, exists := s.Namespaces[namespace]
	switch {
	case ns.Terminating:
		return "is being deleted"
	case exists || !s.NamespacesKnown || s.HasServiceIn(namespace):
		return ""
	}
	return "does not exist"
}

func removal(p *Profile) string {
	condition := ""
	if p.Type == inventory.Conversion {
		condition = " and the versions differ in name only"
	}
	return "if its software is gone for good" + condition + ": " + DisableCommand(p)
}
