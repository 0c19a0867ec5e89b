package classify

import (
	"fmt"
	"strings"
)

var policyExpression = &Check{
	Name:       "policy-expression",
	Summary:    "An expression of an admission policy fails for a kind that the policy matches.",
	Severity:   Warning,
	FindPolicy: func(p *PolicyProfile) []Problem { return append(failingConditions(p), badlyTyped(p)...) },
}

// failingConditions is what an expression does that fails whatever the request holds: the
// API server's type checking knows it not, as the name of a field alone is right.
func failingConditions(p *PolicyProfile) []Problem {
	failing := p.Matcher.FailingPolicyConditions(p.AdmissionPolicy)
	if len(failing) == 0 {
		return nil
	}
	what := failing[0].Field
	if what == "" {
		what = fmt.Sprintf("matchCondition %q", p.MatchConditions[failing[0].Index].Name)
	}
	problem := Problem{
		Message: fmt.Sprintf("fails for every %s that it is evaluated for: %s does (%s), which %s%s", failedRequests(failing), what, failing[0].Reason, whatFailureDoes(p), unlessSkipped(failing)),
		Fix: fmt.Sprintf("correct %s of %s: ask first whether what it reads is there, as in has(request.subResource) && request.subResource == \"status\"%s",
			what, objectName(&p.Registration), changedBy(p.Object.Owner)),
	}
	if !p.FailsClosed() || !p.Denies() || !failing[0].Alone {
		problem.Severity = Info
	}
	return []Problem{problem}
}

// badlyTyped is what the type checking of kube-controller-manager warns of.
func badlyTyped(p *PolicyProfile) []Problem {
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
		Fix:     fmt.Sprintf("correct the expressions, or narrow the rules of %s to the kinds that they are for%s", objectName(&p.Registration), changedBy(p.Object.Owner)),
	}
	if !p.FailsClosed() || !p.Denies() {
		problem.Severity = Info
	}
	return []Problem{problem}
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
