package classify

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var deadRule = &Check{
	Name:     "dead-rule",
	Summary:  "A rule names only resources for which this API server never calls a webhook, or evaluates a policy.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		return deadRules(p.Matcher, &p.Registration, p.UnusedRules)
	},
	FindPolicy: func(p *PolicyProfile) []Problem {
		return deadRules(p.Matcher, &p.Registration, p.Matcher.UnusedRules(&p.Registration))
	},
}

func deadRules(m *admission.Matcher, r *inventory.Registration, unused []int) []Problem {
	var dead, reasons []string
	var whateverSelected []int // those that reach nothing without the objectSelector, too
	if len(unused) > 0 && !r.ObjectSelector.Empty() {
		selecting := *r
		selecting.ObjectSelector = inventory.Selector{}
		whateverSelected = m.UnusedRules(&selecting)
	}
	for _, i := range unused {
		if reason := whyDead(m, r, i, whateverSelected); reason != "" {
			dead = append(dead, fmt.Sprintf("rules[%d]", i))
			reasons = append(reasons, reason)
		}
	}
	if len(dead) == 0 {
		return nil
	}
	return []Problem{{
		Message: fmt.Sprintf("has no effect through %s: %s", JoinBounded(dead), JoinBounded(slices.Compact(reasons))),
		Fix:     fmt.Sprintf("remove or correct %s in %s%s", JoinBounded(dead), objectName(r), changedBy(r.Object.Owner)),
	}}
}

// whyDead says why a rule that reaches nothing does so; "" where that may
// change by itself. Wildcards are left alone, for their intent is unknown,
// and so are groups of CRDs that are not served: optional integrations name them.
func whyDead(m *admission.Matcher, r *inventory.Registration, index int, whateverSelected []int) string {
	s, rule := m.Snapshot, &r.Rules[index]
	isWildcard := func(name string) bool { return strings.HasPrefix(name, "*") }
	if slices.Contains(rule.APIGroups, "*") || slices.ContainsFunc(rule.Resources, isWildcard) ||
		len(rule.APIGroups) == 0 || len(rule.Resources) == 0 || len(rule.Operations) == 0 { // which API servers refuse
		return ""
	}
	for _, group := range rule.APIGroups {
		if !knows(s, group, rule.Resources) {
			return ""
		}
	}
	served := lists.Filter(s.Served, func(one inventory.Served) bool {
		return slices.Contains(rule.APIGroups, one.Group) && admission.NamesResource(rule, one.Resource)
	})
	never, asksNone := admission.NeverSent(s, r.Ref), "calls no webhook"
	if r.Type.IsPolicy() {
		asksNone = "evaluates no policy"
	}
	isSent := func(one inventory.Served) bool { return !slices.Contains(never, one.Parent()) }
	isCovered := func(one inventory.Served) bool { return admission.CoversVersion(rule, one.Version) }
	isInScope := func(one inventory.Served) bool {
		return one.Namespaced == (*rule.Scope == admissionv1.NamespacedScope)
	}
	switch {
	case len(served) == 0:
		return "the API server serves no " + named(rule) + didYouMean(s, rule)
	case !r.ObjectSelector.Empty() && !slices.Contains(whateverSelected, index):
		return fmt.Sprintf("no %s of %s carries labels, so that the objectSelector never selects one", operationsOf(rule), named(rule))
	case !slices.ContainsFunc(served, isSent):
		return "the API server " + asksNone + " for " + named(rule)
	case !slices.ContainsFunc(served, isCovered):
		versions := lists.Map(served, func(s inventory.Served) string { return s.Version })
		return fmt.Sprintf("the API server serves %s only in %s", named(rule), sentence(lists.Distinct(versions), 0))
	case rule.Scope != nil && *rule.Scope != admissionv1.AllScopes && !slices.ContainsFunc(served, isInScope):
		return fmt.Sprintf("%s are never of scope %s", named(rule), *rule.Scope)
	}
	return fmt.Sprintf("the API server %s for %s of %s", asksNone, operationsOf(rule), named(rule))
}

// didYouMean names what the rule most likely means, "" where it names several, or none is like it.
func didYouMean(s *inventory.Snapshot, rule *admissionv1.RuleWithOperations) string {
	if all := RuleResources(rule); len(all) == 1 {
		if likely, ok := s.LikelyResource(all[0]); ok {
			return fmt.Sprintf(" (did you mean %s?)", likely)
		}
	}
	return ""
}

// knows reports whether all that is served of the named resources of the group is known: of
// Kubernetes' own groups it is also where none of a group is served, and of those that
// OpenShift's API servers have. Files need not hold all CRDs of another group, but those of
// the resources that are named.
func knows(s *inventory.Snapshot, group string, names []string) bool {
	isOfGroup := func(r inventory.Served) bool { return r.Group == group }
	ofOpenShift := s.OpenShift && slices.ContainsFunc(inventory.Builtins(inventory.Newest, true), isOfGroup)
	return inventory.WithoutCRDs(group) ||
		slices.ContainsFunc(s.Served, isOfGroup) && (s.ResourcesKnown || ofOpenShift) ||
		!slices.ContainsFunc(names, func(name string) bool {
			parent, _, _ := strings.Cut(name, "/")
			return !slices.ContainsFunc(s.Served,
				func(r inventory.Served) bool { return r.Group == group && r.Name == parent && !r.Presumed() })
		})
}

// KnowsReach reports whether what matches the rules of the webhook is known: files
// need not hold the CRDs of the groups that it names.
func (p *Profile) KnowsReach() bool { return knowsReach(p.Snapshot, &p.Registration) }

func knowsReach(s *inventory.Snapshot, registration *inventory.Registration) bool {
	return s.ResourcesKnown || !slices.ContainsFunc(registration.Rules, func(r admissionv1.RuleWithOperations) bool {
		return slices.ContainsFunc(r.APIGroups,
			func(group string) bool { return group != "*" && !knows(s, group, r.Resources) })
	})
}

// RuleResources are those that the rule spells, or covers by a wildcard.
func RuleResources(rule *admissionv1.RuleWithOperations) []inventory.Resource {
	var out []inventory.Resource
	for _, group := range rule.APIGroups {
		for _, name := range rule.Resources {
			plain, sub, _ := strings.Cut(name, "/")
			out = append(out, inventory.Resource{Group: group, Name: plain, Subresource: sub})
		}
	}
	return out
}

func named(rule *admissionv1.RuleWithOperations) string { return listed(RuleResources(rule)) }

func operationsOf(rule *admissionv1.RuleWithOperations) string {
	return sentence(lists.Strings(rule.Operations), 0)
}

var neverCalled = &Check{
	Name:     "never-called",
	Summary:  "No API server called a webhook for a week, as a Prometheus that scrapes them knows.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		weekAgo := p.Snapshot.Taken.AddDate(0, 0, -7) // it has every day's and every weekend's jobs
		o, created := p.Snapshot.Observed, p.Object.CreationTimestamp
		switch {
		case o == nil || o.CalledLastWeek == nil || o.Scraped < max(1, o.OfServers): // not all API servers are known
			return nil
		case o.CalledLastWeek[p.Series()] || created.IsZero() || created.After(weekAgo),
			p.Type == inventory.Conversion: // is needed when an object of another version turns up, however seldom
			return nil
		}
		changed := ""
		if p.Object.LastChanged.After(weekAgo) {
			changed = fmt.Sprintf(", though its configuration was changed on %s", day(p.Object.LastChanged))
		}
		return []Problem{{
			Message: fmt.Sprintf("was not called in the last 7 days by any of %d API servers that Prometheus scrapes%s", o.Scraped, changed),
			Fix:     "ask its owner whether it is still needed; if not: " + DisableCommand(p),
		}}
	},
}

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
