package admission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Excluded says whether one of the rules keeps the request from webhooks, and where that
// is maybe, for which requests.
func Excluded(rules []inventory.Exclusion, r Request) (Match, string) {
	var open []string
	for _, rule := range rules {
		if !r.isOf(rule) {
			continue
		}
		which := r.openIn(rule)
		if which == "" {
			return Yes, ""
		}
		open = append(open, which)
	}
	if len(open) == 0 {
		return No, ""
	}
	return Maybe, strings.Join(open, " or ")
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

// openIn says what is not known of a request that may be the rule's; "" where it is.
func (r Request) openIn(rule inventory.Exclusion) string {
	var out []string
	if rule.Namespace != "" && rule.Namespace != inventory.Any && r.Namespace == "" {
		out = append(out, "in namespace "+rule.Namespace)
	}
	if r.Name == "" && !slices.Contains(rule.Names, inventory.Any) {
		out = append(out, "to "+namesOf(rule))
	}
	if r.user == nil && rule.Username != inventory.Any {
		out = append(out, "of "+rule.Username)
	}
	return strings.Join(out, " ")
}

// namesOf are a few of the rule's names.
func namesOf(rule inventory.Exclusion) string {
	const few = 5
	if more := len(rule.Names) - few; more > 0 {
		return fmt.Sprintf("%s and %d others", strings.Join(rule.Names[:few], ", "), more)
	}
	return strings.Join(rule.Names, ", ")
}

// excluding turns verdicts on the request into those of an API server that may skip it.
func (m *Matcher) excluding(r Request) func(Verdict) Verdict {
	match, which := Excluded(m.Snapshot.Exclusions, r)
	if match == No {
		return func(v Verdict) Verdict { return v }
	}
	skips := Verdict{Match: Maybe, Reason: ReasonExclusionRules, Detail: "probably skipped by EKS, as EKS Anywhere's exclusion rules do"}
	if match == Maybe {
		skips.Detail = fmt.Sprintf("requests %s are %s", which, skips.Detail)
	}
	return func(v Verdict) Verdict {
		v.Refused = v.Refused && match != Yes
		return v.and(skips)
	}
}
