package admission

import (
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Excluded says whether one of the rules keeps the request from webhooks: maybe where
// that depends on what is not known of it.
func Excluded(rules []inventory.Exclusion, r Request) Match {
	out := No
	for _, rule := range rules {
		switch {
		case !r.isOf(rule):
		case !r.isOpenIn(rule):
			return Yes
		default:
			out = Maybe
		}
	}
	return out
}

// isOf reports whether the request is one of the rule's, as far as it is known.
func (r Request) isOf(rule inventory.Exclusion) bool {
	fits := func(want, have string) bool { return want == inventory.Any || have == "" || want == have }
	scope := inventory.ClusterScope
	if r.namespaced {
		scope = inventory.NamespaceScope
	}
	return r.requestContext != nil && rule.Kind == r.Kind.Kind && rule.APIGroup == r.Kind.Group && rule.Scope == scope &&
		fits(rule.APIVersion, r.Kind.Version) && (rule.Namespace == "" || fits(rule.Namespace, r.Namespace)) && (r.user == nil || fits(rule.Username, r.user.Name)) &&
		(r.Name == "" || slices.Contains(rule.Names, inventory.Any) || slices.Contains(rule.Names, r.Name))
}

// isOpenIn reports whether something is not known of a request that may be the rule's.
func (r Request) isOpenIn(rule inventory.Exclusion) bool {
	return rule.Namespace != "" && rule.Namespace != inventory.Any && r.Namespace == "" ||
		r.Name == "" && !slices.Contains(rule.Names, inventory.Any) ||
		r.user == nil && rule.Username != inventory.Any
}

// excluding turns verdicts on the request into those of an API server that may skip it.
func (m *Matcher) excluding(r Request) func(Verdict) Verdict {
	match := Excluded(m.Snapshot.Exclusions, r)
	if match == No {
		return func(v Verdict) Verdict { return v }
	}
	skips := Verdict{Match: Maybe, Reason: ReasonExclusionRules, Detail: "probably skipped by EKS, as EKS Anywhere's exclusion rules do"}
	if match == Maybe {
		skips.Detail = "by some names or users " + skips.Detail
	}
	return func(v Verdict) Verdict {
		v.Refused = v.Refused && match != Yes
		return v.and(skips)
	}
}
