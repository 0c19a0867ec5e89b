package classify

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var equivalentGap = &Check{
	Name:     "equivalent-gap",
	Summary:  "A webhook with matchPolicy Exact is passed by through another version of the same resource.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if len(p.Gaps) == 0 {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("is not called when its resources are written as %s, for its matchPolicy is Exact", JoinBounded(p.Gaps)),
			Fix:     patch(p, set(p, "matchPolicy", string(admissionv1.Equivalent))),
		}}
	},
}

// findGaps finds what passes by the webhooks with matchPolicy Exact. Several
// webhooks of one configuration, one for each version, leave no gap. It goes once
// through the rules of a configuration and once through what webhooks match that
// match the same.
func findGaps(w *work, m *admission.Matcher, profiles []Profile) {
	siblings := map[configurationKey][]*inventory.Webhook{}
	for i := range profiles {
		key := configurationOf(profiles[i].Ref)
		siblings[key] = append(siblings[key], profiles[i].Webhook)
	}
	type asked struct {
		configuration configurationKey
		matched       *admission.MatchedResource
	}
	gapsOf := map[configurationKey]func(inventory.Resource) []string{}
	known := map[asked][]string{}
	for i := range profiles {
		p := &profiles[i]
		if !isExact(p) {
			continue
		}
		key := configurationOf(p.Ref)
		if gapsOf[key] == nil {
			gapsOf[key] = m.UnmatchedVersions(siblings[key])
		}
		question := asked{key, &p.Matched[0]}
		gaps, seen := known[question]
		if !seen {
			gaps = gapsIn(w, p.Matched, gapsOf[key])
			known[question] = gaps
		}
		p.Gaps = gaps
	}
}

func gapsIn(w *work, reached []admission.MatchedResource, of func(inventory.Resource) []string) []string {
	var out []string
	for _, r := range reached {
		if !w.step() {
			return nil
		}
		if r.Subresource == "" {
			out = append(out, of(r.Resource)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// isExact reports whether equivalent versions pass the webhook by.
func isExact(p *Profile) bool {
	return p.MatchPolicy == admissionv1.Exact && p.Type != inventory.Conversion && len(p.Matched) > 0
}
