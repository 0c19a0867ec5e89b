package classify

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var deadRule = &Check{
	Name:     "dead-rule",
	Summary:  "A rule names only resources for which this API server never calls a webhook, or evaluates a policy.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		return deadRules(p.Snapshot, &p.Registration, p.UnusedRules, ObjectName(p))
	},
	FindPolicy: func(p *PolicyProfile) []Problem {
		return deadRules(p.Snapshot, &p.Registration, p.Matcher.UnusedRules(&p.Registration),
			objectName(&p.Registration))
	},
}

func deadRules(s *inventory.Snapshot, r *inventory.Registration, unused []int, object string) []Problem {
	var dead, reasons []string
	for _, i := range unused {
		if reason := whyDead(s, r, &r.Rules[i]); reason != "" {
			dead = append(dead, fmt.Sprintf("rules[%d]", i))
			reasons = append(reasons, reason)
		}
	}
	if len(dead) == 0 {
		return nil
	}
	return []Problem{{
		Message: fmt.Sprintf("has no effect through %s: %s", JoinBounded(dead), JoinBounded(slices.Compact(reasons))),
		Fix:     fmt.Sprintf("remove or correct %s in %s%s", JoinBounded(dead), object, changedBy(r.Object.Owner)),
	}}
}

// whyDead says why a rule that reaches nothing does so; "" where that may
// change by itself. Wildcards are left alone, for their intent is unknown,
// and so are groups of CRDs that are not served: optional integrations name them.
func whyDead(s *inventory.Snapshot, r *inventory.Registration, rule *admissionv1.RuleWithOperations) string {
	if wildcards(rule) || len(rule.APIGroups) == 0 || len(rule.Resources) == 0 || len(rule.Operations) == 0 { // without them, the API server refuses the object
		return ""
	}
	for _, group := range rule.APIGroups {
		if !knowsGroup(s, group) && !shows(s, group, rule.Resources) {
			return ""
		}
	}
	served := servedByName(s, rule)
	switch {
	case len(served) == 0:
		return "the API server serves no " + named(rule) + didYouMean(s, rule)
	case onlyConnects(r, served, rule):
		return fmt.Sprintf("a CONNECT to %s carries no labels, so that the objectSelector never selects it", named(rule))
	case onlyScales(r, served, rule):
		return fmt.Sprintf("an UPDATE of %s carries a Scale, which has no labels, so that the objectSelector never selects it", named(rule))
	case allNever(s, r.Ref, served):
		return "the API server " + asksNone(r.Type) + " for " + named(rule)
	case !slices.ContainsFunc(served,
		func(s inventory.Served) bool { return admission.CoversVersion(rule, s.Version) }):
		versions := text.Map(served, func(s inventory.Served) string { return s.Version })
		return fmt.Sprintf("the API server serves %s only in %s", named(rule), sentence(text.Distinct(versions), 0))
	case rule.Scope != nil && *rule.Scope != admissionv1.AllScopes &&
		!slices.ContainsFunc(served,
			func(s inventory.Served) bool { return s.Namespaced == (*rule.Scope == admissionv1.NamespacedScope) }):
		return fmt.Sprintf("%s are never of scope %s", named(rule), *rule.Scope)
	}
	return fmt.Sprintf("the API server %s for %s of %s", asksNone(r.Type), operationsOf(rule), named(rule))
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

func asksNone(t inventory.Type) string {
	if t.IsPolicy() {
		return "evaluates no policy"
	}
	return "calls no webhook"
}

// onlyConnects reports whether a rule that reaches nothing would reach CONNECTs
// if it were not for the objectSelector.
func onlyConnects(r *inventory.Registration, served []inventory.Served, rule *admissionv1.RuleWithOperations) bool {
	return !r.ObjectSelector.Empty() && admission.RuleOperations(rule).Has(admission.Connect) &&
		slices.ContainsFunc(served,
			func(s inventory.Served) bool { return slices.Contains(admission.OperationsOn(s), admission.Connect) })
}

// onlyScales reports the same of UPDATEs of scale.
func onlyScales(r *inventory.Registration, served []inventory.Served, rule *admissionv1.RuleWithOperations) bool {
	return !r.ObjectSelector.Empty() && admission.RuleOperations(rule).Has(admission.Update) &&
		!slices.ContainsFunc(served, func(s inventory.Served) bool { return s.Subresource != "scale" })
}

func wildcards(rule *admissionv1.RuleWithOperations) bool {
	return slices.Contains(rule.APIGroups, "*") ||
		slices.ContainsFunc(rule.Resources, func(r string) bool { return strings.HasPrefix(r, "*") })
}

// knowsGroup reports whether all that is served of the group is known: of
// Kubernetes' own groups it is also where none of a group is served, and of those that
// OpenShift's API servers have. Files need not hold all CRDs of another group.
func knowsGroup(s *inventory.Snapshot, group string) bool {
	in := func(r inventory.Served) bool { return r.Group == group }
	return inventory.WithoutCRDs(group) ||
		slices.ContainsFunc(s.Served, in) &&
			(s.ResourcesKnown || s.OpenShift && slices.ContainsFunc(inventory.Builtins(inventory.Newest, true), in))
}

// KnowsReach reports whether what matches the rules of the webhook is known: files
// need not hold the CRDs of the groups that it names.
func (p *Profile) KnowsReach() bool { return knowsReach(p.Snapshot, &p.Registration) }

// KnowsReach is the same of a policy.
func (p *PolicyProfile) KnowsReach() bool { return knowsReach(p.Snapshot, &p.Registration) }

func knowsReach(s *inventory.Snapshot, registration *inventory.Registration) bool {
	return s.ResourcesKnown || !slices.ContainsFunc(registration.Rules, func(r admissionv1.RuleWithOperations) bool {
		return slices.ContainsFunc(r.APIGroups,
			func(group string) bool { return group != "*" && !knowsGroup(s, group) && !shows(s, group, r.Resources) })
	})
}

// shows reports whether the input has the CRDs of all resources of the group that are named.
func shows(s *inventory.Snapshot, group string, names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		parent, _, _ := strings.Cut(name, "/")
		return !slices.ContainsFunc(s.Served,
			func(r inventory.Served) bool { return r.Group == group && r.Name == parent && !r.Presumed() })
	})
}

// servedByName returns what is served under the names that the rule spells.
func servedByName(s *inventory.Snapshot, rule *admissionv1.RuleWithOperations) []inventory.Served {
	var out []inventory.Served
	for _, served := range s.Served {
		if slices.Contains(rule.APIGroups, served.Group) && admission.NamesResource(rule, served.Resource) {
			out = append(out, served)
		}
	}
	return out
}

func allNever(s *inventory.Snapshot, r inventory.Ref, served []inventory.Served) bool {
	never := admission.NeverSent(s, r)
	return !slices.ContainsFunc(served,
		func(one inventory.Served) bool { return !slices.Contains(never, one.Parent()) })
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

// named lists the resources of a rule as kubectl writes them.
func named(rule *admissionv1.RuleWithOperations) string { return listed(RuleResources(rule)) }

func operationsOf(rule *admissionv1.RuleWithOperations) string {
	return sentence(text.Strings(rule.Operations), 0)
}
