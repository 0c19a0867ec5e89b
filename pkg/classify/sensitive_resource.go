package classify

import (
	"fmt"
	"time"
)

var sensitiveResource = &Check{
	Name:     "sensitive-resource",
	Summary:  "An unapproved webhook reads security-sensitive resources in plain text.",
	Severity: Info,
	Alerts:   map[Severity]string{Info: "WebhookOnSensitiveResource"},
	For:      15 * time.Minute,
	Find: func(p *Profile) []Problem {
		sensitive := p.ByClass[ClassSensitive]
		if len(sensitive) == 0 || p.Approved || p.Platform {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("sees the security-sensitive resources %s in plain text and is not approved", byRule(p, sensitive)),
			Brief:   fmt.Sprintf("it sees %s in plain text, and no approval is recorded", sentence([]string{sensitive[0].String()}, len(sensitive)-1)),
			Fix:     approve(p, "sensitive-resource"),
		}}
	},
}
