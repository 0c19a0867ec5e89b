package classify

import (
	"fmt"
	"time"
)

var criticalResource = &Check{
	Name:     "critical-resource",
	Summary:  "An unapproved third-party webhook is called for resources that the whole cluster depends on.",
	Severity: Info,
	Alerts:   map[Severity]string{Info: "WebhookOnCriticalResource"},
	For:      15 * time.Minute,
	Find: func(p *Profile) []Problem {
		critical := p.ByClass[ClassCritical]
		if len(critical) == 0 || p.Approved || p.Platform || !p.ThirdParty {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("of a third party is called for the critical resources %s and is not approved", byRule(p, critical)),
			Brief:   fmt.Sprintf("it sees %s, and no approval is recorded", sentence([]string{critical[0].String()}, len(critical)-1)),
			Fix:     approve(p, "critical-resource"),
		}}
	},
}
