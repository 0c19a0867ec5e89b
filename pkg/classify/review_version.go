package classify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var reviewVersion = &Check{
	Name:     "review-version",
	Summary:  "A webhook does not take version v1 of the reviews that the API server sends.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if p.Platform || len(p.ReviewVersions) == 0 || slices.Contains(p.ReviewVersions, "v1") {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("takes reviews of version %s only: an API server without that version cannot call it", strings.Join(p.ReviewVersions, ", ")),
			Fix:     "once its software answers v1: " + takeV1(p),
		}}
	},
}

func takeV1(p *Profile) string {
	if p.Type == inventory.Conversion {
		return edited(&p.Registration, edit{"add", "/spec/conversion/webhook/conversionReviewVersions/-", "v1"})
	}
	return patch(p, set(p, "admissionReviewVersions/-", "v1"))
}
