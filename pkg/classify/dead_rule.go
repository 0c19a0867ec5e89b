package classify

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var deadRule = &Check{
	Name:     "dead-rule",
	Summary:  "A rule names only resources for which this API server never calls a webhook.",
	Severity: Info,
	Find:     findDeadRule,
}

func findDeadRule(p Profile) []Problem {
	never := p.Snapshot.NeverSent()
	var rules []string
	var named []inventory.Resource
	for i := range p.Rules {
		if dead := deadResources(&p.Rules[i], never); len(dead) > 0 {
			rules = append(rules, fmt.Sprintf("rules[%d]", i))
			named = append(named, dead...)
		}
	}
	if len(rules) == 0 {
		return nil
	}
	return []Problem{{
		Message: fmt.Sprintf("has no effect through %s: the API server calls no webhook for %s", sentence(rules, 0), listed(slices.Compact(named))),
		Fix:     fmt.Sprintf("remove %s from %s", sentence(rules, 0), object(p)),
	}}
}

// deadResources returns what the rule names if nothing of it is ever sent to a
// webhook. Wildcards are left alone: their intent is not known.
func deadResources(rule *admissionv1.RuleWithOperations, never []inventory.Resource) []inventory.Resource {
	var out []inventory.Resource
	for _, group := range rule.APIGroups {
		for _, name := range rule.Resources {
			plain, _, _ := strings.Cut(name, "/")
			r := inventory.Resource{Group: group, Name: plain}
			if !slices.Contains(never, r) {
				return nil
			}
			out = append(out, r)
		}
	}
	return out
}
