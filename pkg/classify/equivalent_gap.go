package classify

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var equivalentGap = &Check{
	Name:     "equivalent-gap",
	Summary:  "A webhook with matchPolicy Exact is passed by through another version of the same resource.",
	Severity: Info,
	Find: func(p Profile) []Problem {
		if len(p.Gaps) == 0 {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("is not called when its resources are written as %s, for its matchPolicy is Exact", some(p.Gaps)),
			Fix:     patch(p, set(p, "matchPolicy", string(admissionv1.Equivalent))),
		}}
	},
}

// findGaps finds what passes by the webhooks with matchPolicy Exact. Several
// webhooks of one configuration, one for each version, leave no gap.
func findGaps(s *inventory.Snapshot, profiles []Profile) {
	siblings := map[configurationKey][]*inventory.Webhook{}
	for i := range profiles {
		key := configurationOf(profiles[i].Ref)
		siblings[key] = append(siblings[key], profiles[i].Webhook)
	}
	for i := range profiles {
		w := &profiles[i]
		if w.MatchPolicy != admissionv1.Exact || w.Type == inventory.Conversion {
			continue
		}
		for _, r := range w.Reached {
			if r.Subresource == "" {
				w.Gaps = append(w.Gaps, s.Unmatched(r.Resource, siblings[configurationOf(w.Ref)])...)
			}
		}
		slices.Sort(w.Gaps)
		w.Gaps = slices.Compact(w.Gaps)
	}
}
