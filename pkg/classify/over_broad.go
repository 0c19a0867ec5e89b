package classify

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var overBroad = &Check{
	Name:     "over-broad",
	Summary:  "A rule covers every resource of every group.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		broad := broadRules(p)
		if len(broad) == 0 || optIn(p.NamespaceSelector) || optIn(p.ObjectSelector) {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("covers everything through %s: %d resources", sentence(broad, 0), len(p.Matched)),
			Fix:     fmt.Sprintf("list in %s of %s the groups and resources that it looks at%s", sentence(broad, 0), ObjectName(p), byOwner(p)),
		}}
	},
}

func broadRules(p *Profile) []string {
	var out []string
	for i, rule := range p.Rules {
		if coversEverything(rule) {
			out = append(out, fmt.Sprintf("rules[%d]", i))
		}
	}
	return out
}

// optIn reports whether a selector asks for a label: what does not carry it
// is left alone.
func optIn(s inventory.Selector) bool {
	if s.Raw == nil {
		return false
	}
	return len(s.Raw.MatchLabels) > 0 ||
		slices.ContainsFunc(s.Raw.MatchExpressions, func(e metav1.LabelSelectorRequirement) bool {
			return e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpExists
		})
}
