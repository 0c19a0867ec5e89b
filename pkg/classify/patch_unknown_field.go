package classify

import "fmt"

var patchUnknownField = &Check{
	Name:     "patch-unknown-field",
	Summary:  "A mutating admission policy refuses what it matches, whatever its failurePolicy: it adds a field that the kind does not have.",
	Severity: Warning,
	FindPolicy: func(p *PolicyProfile) []Problem {
		if len(p.Bindings) == 0 {
			return nil
		}
		var out []Problem
		for _, f := range p.Matcher.UnknownPatchedFields(p.AdmissionPolicy) {
			out = append(out, Problem{
				Resource: f.Resource,
				Message: fmt.Sprintf("adds %s to %s, which have no such field: the API server cannot decode the result, and refuses the request with 500 (strict decoding error), whatever failurePolicy %s says, without naming the policy",
					quoted(f.Path), f.Resource, p.FailurePolicy),
				Fix: fmt.Sprintf("%s; then correct the path, or narrow the rules of %s to the kinds that have the field%s", deleteBindings(p.Bindings), objectName(&p.Registration), changedBy(p.Object.Owner)),
			})
		}
		return out
	},
}
