package classify

import (
	"fmt"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var conversionUnneeded = &Check{
	Name:     "conversion-unneeded",
	Summary:  "A CRD names a conversion webhook that is never called, because only one version is served and stored.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if p.Type != inventory.Conversion || p.CRD.StorageVersion == "" ||
			p.Matcher.ConversionNeed(p.CRD) != admission.NeverConverted {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("is never called: %s is the only version that is served and stored", p.CRD.StorageVersion),
			Fix:     DisableCommand(p),
		}}
	},
}

// withoutConversion is the command that takes the conversion webhook out of a CRD. Pasted
// again, it must not replace the copy with the CRD without its conversion.
func withoutConversion(p *Profile) string {
	patch := behindCopy(ObjectName(p), backup("crd", p.Configuration), "kubectl patch "+ObjectName(p)+` --type=merge -p '{"spec":{"conversion":{"strategy":"None","webhook":null}}}'`)
	return strings.Replace(patch, "&& ", "&& grep -q 'strategy: Webhook' raw.yaml && ", 1)
}
