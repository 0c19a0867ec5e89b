package classify

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var equivalentGap = &Check{
	Name:     "equivalent-gap",
	Summary:  "A webhook with matchPolicy Exact is not called for other versions of the same resource.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if len(p.UnmatchedVersions) == 0 {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("is not called when its resources are written as %s, for its matchPolicy is Exact", JoinBounded(p.UnmatchedVersions)),
			Fix:     patch(p, set(p, "matchPolicy", string(admissionv1.Equivalent))),
		}}
	},
}

// findUnmatchedVersions finds the versions for which webhooks with matchPolicy Exact
// are not called. Several webhooks of one configuration, one for each version,
// leave none. It goes once through the rules of a configuration and through what each webhook matches.
func findUnmatchedVersions(w *work, m *admission.Matcher, profiles []*Profile) {
	siblings := map[inventory.Ref][]*inventory.Webhook{}
	for _, p := range profiles {
		siblings[p.WithoutName()] = append(siblings[p.WithoutName()], p.Webhook)
	}
	unmatchedBy := map[inventory.Ref]func(inventory.Resource) []string{}
	for _, p := range profiles {
		if !isExact(p) {
			continue
		}
		key := p.WithoutName()
		if unmatchedBy[key] == nil {
			unmatchedBy[key] = m.UnmatchedVersions(siblings[key])
		}
		for _, r := range p.Matched {
			if !w.step() {
				return
			}
			if r.Subresource == "" {
				p.UnmatchedVersions = append(p.UnmatchedVersions, unmatchedBy[key](r.Resource)...)
			}
		}
		p.UnmatchedVersions = text.Distinct(p.UnmatchedVersions)
	}
}

// isExact reports whether equivalent versions pass the webhook by.
func isExact(p *Profile) bool {
	return p.MatchPolicy == admissionv1.Exact && p.Type != inventory.Conversion && len(p.Matched) > 0
}
