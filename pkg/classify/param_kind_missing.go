package classify

import (
	"fmt"
	"slices"
	"time"
)

var paramKindMissing = &Check{
	Name:     "param-kind-missing",
	Summary:  "An admission policy refuses all that it matches: the kind of its params is not served.",
	Severity: Warning,
	Alerts:   map[Severity]string{Warning: "WebhookPolicyParamKindMissing"},
	For:      5 * time.Minute,
	Cause:    "Kind of its params is not served",
	FindPolicy: func(p *PolicyProfile) []Problem {
		if !p.FailsClosed() || len(p.Bindings) == 0 || !p.meetsRequests() ||
			!p.Matcher.ParamKind(p.AdmissionPolicy).Refused {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("refuses %s%s, whatever its bindings and matchConditions say: the API server does not serve %s %s, the kind of its params (failurePolicy Fail); an API server that has served it lets requests pass until it starts anew",
				ruledRequests(p), ifMatched(p), p.ParamKind.APIVersion, p.ParamKind.Kind),
			Fix: fmt.Sprintf("%s; then create the CustomResourceDefinition of %s, and the bindings half a minute after it", deleteBindings(p.AdmissionPolicy), quoted(p.ParamKind.Kind)),
		}}
	},
}

// ifMatched says that selectors or names leave some of the requests out.
func ifMatched(p *PolicyProfile) string {
	if p.NamespaceSelector.Empty() && p.ObjectSelector.Empty() && len(p.Excluded.Rules) == 0 &&
		!slices.ContainsFunc(p.ResourceNames, func(names []string) bool { return len(names) > 0 }) {
		return ""
	}
	return " that its matchConstraints let through"
}
