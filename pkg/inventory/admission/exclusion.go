package admission

import (
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Excluded says whether one of the rules keeps the request from webhooks: maybe where
// that depends on what is not known of it.
func Excluded(rules []inventory.Exclusion, r Request) Match {
	out, user := No, ""
	if r.requestContext != nil && r.user != nil {
		user = r.user.Name
	}
	for _, rule := range rules {
		fits := []Match{fit(r.Kind.Version, rule.APIVersion), fit(r.Namespace, rule.Namespace), fit(r.Name, rule.Names...), fit(user, rule.Username)}
		switch {
		case rule.Kind != r.Kind.Kind || rule.APIGroup != r.Kind.Group || slices.Contains(fits, No):
		case !slices.Contains(fits, Maybe):
			return Yes
		default:
			out = Maybe
		}
	}
	return out
}

// fit says whether what the request has is among what a rule wants: maybe where it is
// not known.
func fit(have string, want ...string) Match {
	if have == "" && !slices.Contains(want, inventory.Any) && !slices.Contains(want, "") {
		return Maybe
	}
	return certain(slices.Contains(want, inventory.Any) || slices.Contains(want, have))
}

// excluding turns verdicts on the request into those of an API server that may skip it.
func (m *Matcher) excluding(r Request) func(Verdict) Verdict {
	skips := Verdict{Match: Maybe, Reason: ReasonExclusionRules, Detail: "probably skipped by EKS, as EKS Anywhere's exclusion rules do"}
	switch Excluded(m.Snapshot.Exclusions, r) {
	case No:
		return func(v Verdict) Verdict { return v }
	case Maybe:
		skips.Detail = "by some names or users " + skips.Detail
	}
	return func(v Verdict) Verdict { return v.and(skips) }
}
