package impact

import (
	"fmt"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// PolicyCards are those of the admission policies with the name, of the type or of both
// where it has none.
func PolicyCards(r *classify.Report, ref inventory.Ref) []Card {
	var out []Card
	for _, p := range r.Snapshot.Policies {
		if p.Name == ref.Configuration && (ref.Type == "" || p.Type == ref.Type) {
			out = append(out, newPolicyCard(r, p))
		}
	}
	return out
}

func newPolicyCard(r *classify.Report, p *inventory.AdmissionPolicy) Card {
	matched := r.Matcher.PolicyResources(p)
	out := Card{
		Policy: p, Name: p.Name, Title: fmt.Sprintf("%s %s%s", p.Object.Kind, p.Name, installed(&p.Registration)),
		Commands: []string{}, Sections: []Section{},
		Summary: []Fact{
			{"called for", strings.Join(append([]string{resources(matched)}, selectors(r.Snapshot, &p.MatchResources, matched)...), "; ")},
			{"if it fails", strings.Join(policyFailures(r, p), "; ")},
			{"stops", stopsInWords(r.RefusedFunctions(p))},
		},
	}
	if len(p.Bindings) == 0 {
		out.Summary = append(out.Summary, Fact{"way out", "no binding names it: there is nothing to disable"})
		return out
	}
	c := classify.PolicyCommands(p)
	out.Commands = []string{c.Disable}
	wayOut := "delete its bindings by the commands below"
	if classify.CoversPods(matched) {
		wayOut += "; " + classify.Late
	}
	out.Summary = append(out.Summary, Fact{"way out", wayOut})
	return out
}

func policyFailures(r *classify.Report, p *inventory.AdmissionPolicy) []string {
	outcome := "let through (failurePolicy Ignore)"
	switch {
	case p.FailsClosed() && p.Denies():
		outcome = "refused (failurePolicy Fail)"
	case p.FailsClosed():
		outcome = "let through, as no binding denies"
	}
	return append([]string{"where an expression fails, or costs more than the API server allows, the request is " + outcome}, paramFailures(r, p)...)
}

// paramFailures are what becomes of requests where params or their kind are missing:
// no binding, action or matchCondition prevents that.
func paramFailures(r *classify.Report, p *inventory.AdmissionPolicy) []string {
	if p.ParamKind == nil {
		return nil
	}
	missing := fmt.Sprintf("where the kind of its params (%s %s) is not served, every request that its rules and selectors match is ", p.ParamKind.APIVersion, p.ParamKind.Kind)
	if !p.FailsClosed() {
		return []string{missing + "let through (failurePolicy Ignore)"}
	}
	out := []string{missing + "refused, whatever its bindings and matchConditions say (failurePolicy Fail)"}
	if v := r.Matcher.ParamKind(p); v.Refused {
		out = append(out, "that is so now: "+v.Detail)
	} else if v.Match == admission.Maybe {
		out = append(out, "whether it is served is not known from this input")
	}
	var denying []string
	for _, b := range p.Bindings {
		if b.DeniesWithoutParams() {
			denying = append(denying, b.Object.Name)
		}
	}
	if len(denying) > 0 {
		out = append(out, fmt.Sprintf("where its params do not exist, every request that it matches by %s is refused, whatever the validationActions say (parameterNotFoundAction Deny)", some(denying)))
	}
	return out
}
