package classify

import (
	"fmt"
	"strings"
	"time"
)

var coreResource = &Check{
	Name:     "core-resource",
	Summary:  "An unapproved webhook of an openshift-* Service is called for stock resources.",
	Severity: Info,
	Alerts:   map[Severity]string{Info: "WebhookOnCoreResource"},
	For:      15 * time.Minute,
	Find: func(p *Profile) []Problem {
		core := p.ByClass[ClassCore]
		if len(core) == 0 || p.Approved || p.Platform || !strings.HasPrefix(p.Webhook.Backend.Namespace(), "openshift-") {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("in %s is called for the core resources %s and is not approved", p.Webhook.Backend.Namespace(), byRule(p, core)),
			Brief:   fmt.Sprintf("it sees %s, and no approval is recorded", sentence([]string{core[0].String()}, len(core)-1)),
			Fix:     approve(p, "core-resource"),
		}}
	},
}
