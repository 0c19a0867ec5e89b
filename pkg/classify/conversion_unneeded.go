package classify

import (
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var conversionUnneeded = &Check{
	Name:     "conversion-unneeded",
	Summary:  "A CRD names a conversion webhook that is never called, because only one version is served and stored.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if p.Type != inventory.Conversion || p.CRD.StorageVersion == "" || p.Matcher.ConversionNeed(p.CRD) != admission.NeverConverted {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("is never called: %s is the only version that is served and stored", p.CRD.StorageVersion),
			Fix:     noConversion(p),
		}}
	},
}

// noConversion is withoutConversion, and who reverts it.
func noConversion(p *Profile) string { return withoutConversion(p) + byOwner(p) }

// withoutConversion is the command that takes the conversion webhook out of a
// CRD.
func withoutConversion(p *Profile) string {
	return fmt.Sprintf(`kubectl patch %s --type=merge -p '{"spec":{"conversion":{"strategy":"None","webhook":null}}}'`, ObjectName(p))
}
