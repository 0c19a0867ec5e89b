package classify

import (
	"fmt"
	"strings"
)

var policyExpression = &Check{
	Name:     "policy-expression",
	Summary:  "An expression of an admission policy fails for a kind that the policy matches.",
	Severity: Warning,
	FindPolicy: func(p *PolicyProfile) []Problem {
		if len(p.TypeWarnings) == 0 {
			return nil
		}
		var out []string
		for _, w := range p.TypeWarnings {
			text, _, _ := strings.Cut(strings.TrimSpace(w.Warning), "\n")
			out = append(out, w.FieldRef+" ("+text+")")
		}
		problem := Problem{
			Message: fmt.Sprintf("fails through %s, which %s", JoinBounded(out), whatFailureDoes(p)),
			Fix:     fmt.Sprintf("correct the expressions, or narrow the rules of %s to the kinds that they are for%s", TypeAndName(kindArgument(p), p.Name), changedBy(p.Object.Owner)),
		}
		if !p.FailsClosed() || !p.Denies() {
			problem.Severity = Info
		}
		return []Problem{problem}
	},
}

// whatFailureDoes is what follows where an expression of the policy fails.
func whatFailureDoes(p *PolicyProfile) string {
	switch {
	case !p.FailsClosed():
		return "lets the request pass (failurePolicy Ignore)"
	case !p.Denies():
		return "is reported alone (validationActions without Deny)"
	}
	return "refuses the request (failurePolicy Fail)"
}
