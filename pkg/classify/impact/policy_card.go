package impact

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
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
	failures, covered, stops := policyFailures(r, p), r.Matcher.PolicyResources(p), stopsInWords(refusedFunctions(r, p))
	answers := map[string]Answer{
		"adds":           {Answers: append(policyAdds(r.Snapshot, p), covers(covered))},
		"modifies":       policyModifies(p),
		"slis":           {Queries: policyQueries(p)},
		"failure-modes":  {Answers: failures},
		"cluster-health": {Answers: []string{stops}},
		"teams":          teams(p.Object),
		"detection": {Answers: append([]string{fmt.Sprintf(
			`errors of clients, and Events of controllers that create Pods, say '%s' with binding '…' denied request; for the cause: webhook-auditor explain --error 'MESSAGE'`, p.Name,
		)}, foundNow(r, p.Ref)...)},
		"disabled-cluster": {Answers: []string{untouched}},
	}
	commands, wayOut := []string{}, "no binding names it: there is nothing to disable"
	answers["disabling"] = Answer{Answers: []string{wayOut}}
	if len(p.Bindings) > 0 {
		c := classify.PolicyCommands(p)
		commands, wayOut = []string{c.Save, c.Disable}, "delete its bindings by the commands below; "+classify.Late
		disable := disabling(c)
		disable.Answers = append(disable.Answers, fmt.Sprintf("delete its bindings (the commands name the first %d): no policy or webhook of the API can refuse that", classify.MaxBindings))
		answers["disabling"] = disable
		answers["resuming"] = Answer{Answers: []string{"it is evaluated again within seconds; objects that were written meanwhile are not, until they are written again"}, Commands: []string{c.Restore}}
	}
	return Card{
		Policy: p, Name: p.Name, Title: fmt.Sprintf("%s %s%s", p.Object.Kind, p.Name, installed(&p.Registration)), Commands: commands, Sections: sections(answers),
		Summary: []Fact{
			{"called for", strings.Join(append([]string{resources(covered)}, selectors(r.Snapshot, &p.MatchResources)...), "; ")},
			{"if it fails", failures[0]},
			{"stops", stops},
			{"way out", wayOut},
		},
	}
}

func policyAdds(s *inventory.Snapshot, p *inventory.AdmissionPolicy) []string {
	out := []string{fmt.Sprintf("the %s %s%s; the API server evaluates it itself: it calls nothing, and no request waits for a network", p.Object.Kind, p.Name, installed(&p.Registration))}
	for _, rule := range rulesInWords(&p.RuleSet) {
		out = append(out, "it is evaluated for "+rule)
	}
	for _, rule := range rulesInWords(&p.Excluded) {
		out = append(out, "it is not evaluated for "+rule)
	}
	out = append(out, filters(s, &p.Registration)...)
	for _, b := range p.Bindings[:min(len(p.Bindings), maxListed)] {
		out = append(out, bindingInWords(s, p, b))
	}
	if more := len(p.Bindings) - maxListed; more > 0 {
		out = append(out, inventory.Counted(more, "more binding")+" put it into effect")
	} else if len(p.Bindings) == 0 {
		out = append(out, "no binding names it: it has no effect until one does")
	}
	return out
}

// rulesInWords are the rules, with the names of objects that they are for.
func rulesInWords(set *inventory.RuleSet) []string {
	var out []string
	for i := range set.Rules {
		text := ruleInWords(&set.Rules[i])
		if set.ResourceNames != nil && len(set.ResourceNames[i]) > 0 {
			text += ", of the names " + some(set.ResourceNames[i])
		}
		out = append(out, text)
	}
	return out
}

// bindingInWords says for what a binding puts the policy into effect, and how.
func bindingInWords(s *inventory.Snapshot, p *inventory.AdmissionPolicy, b *inventory.PolicyBinding) string {
	out := []string{fmt.Sprintf("binding %s puts it into effect", b.Object.Name)}
	if len(b.Actions) > 0 {
		out[0] += ", with validationActions " + some(text.Strings(b.Actions))
	}
	for _, rule := range rulesInWords(&b.RuleSet) {
		out = append(out, "for "+rule)
	}
	for _, rule := range rulesInWords(&b.Excluded) {
		out = append(out, "not for "+rule)
	}
	out = append(out, selectors(s, &b.MatchResources)...)
	if p.ParamKind != nil && b.ParamRef != nil {
		missing := "requests pass (parameterNotFoundAction Allow)"
		if b.DeniesWithoutParams() {
			missing = "it fails (parameterNotFoundAction Deny)"
		}
		out = append(out, "with "+admission.ParamName(p, b.ParamRef)+": where that does not exist, "+missing)
	}
	return strings.Join(out, "; ")
}

func policyModifies(p *inventory.AdmissionPolicy) Answer {
	var a Answer
	switch {
	case p.Type == inventory.MutatingPolicy:
		a.Answers = []string{"it may change the objects that it is evaluated for"}
		if p.Reinvocation == admissionv1.IfNeededReinvocationPolicy {
			a.Answers = append(a.Answers, "it is evaluated again where the object is changed after it (reinvocationPolicy IfNeeded)")
		}
		a.ToFillIn = []string{"which fields of which objects it sets, and to what"}
	case p.Denies():
		a.Answers = []string{"it may refuse the requests that it is evaluated for; it changes no object"}
		a.ToFillIn = []string{"what it refuses, and why"}
	default:
		a.Answers = []string{"no binding lets what it finds refuse a request: it warns, or is recorded in the audit log"}
	}
	return a
}

// policyQueries: what refuses for its params is in none of the policy's own series.
func policyQueries(p *inventory.AdmissionPolicy) []Query {
	name, kind, plugin := `policy=`+strconv.Quote(p.Name), "validate", "ValidatingAdmissionPolicy"
	own := Query{"violations and failures of its expressions by what is done about them, a second", `sum by (enforcement_action) (rate(` + promql.Validations + `{` + name + `}[5m]))`}
	if p.Type == inventory.MutatingPolicy {
		own = Query{"mutations that fail, a second", `sum(rate(` + promql.Mutations + `{` + name + `,error_type!="no_error"}[5m]))`}
		kind, plugin = "admit", "MutatingAdmissionPolicy"
	}
	return []Query{
		own,
		{"requests that policies of the type refuse, those for missing params too, a second", `sum(rate(` + promql.PluginSeconds + `_count{name="` + plugin + `",type="` + kind + `",rejected="true"}[5m]))`},
		{"open findings", `max by (check, severity) (webhook_auditor_finding{type="` + string(p.Type) + `",name=` + strconv.Quote(p.Name) + `})`},
	}
}

func policyFailures(r *classify.Report, p *inventory.AdmissionPolicy) []string {
	outcome := "let through (failurePolicy Ignore)"
	switch {
	case p.FailsClosed() && p.Denies():
		outcome = "refused (failurePolicy Fail)"
	case p.FailsClosed():
		outcome = "let through, as no binding denies"
	}
	out := append([]string{"an expression fails, or costs more than the API server allows: the request is " + outcome}, paramFailures(r, p)...)
	if p.Type == inventory.MutatingPolicy {
		out = append(out, "the result of a JSON patch does not decode, or the CRD of the object is a few seconds old: the request is refused, whatever the failurePolicy")
	}
	return append(out, "it refuses or changes what it should not: such requests fail with its message")
}

// paramFailures are what becomes of requests where params or their kind are missing:
// no binding, action or matchCondition prevents that.
func paramFailures(r *classify.Report, p *inventory.AdmissionPolicy) []string {
	if p.ParamKind == nil {
		return nil
	}
	missing := fmt.Sprintf("the kind of its params (%s %s) is not served: every request that its rules and selectors match is ", p.ParamKind.APIVersion, p.ParamKind.Kind)
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
		out = append(out, fmt.Sprintf("its params do not exist: every request that it matches by %s is refused, whatever the validationActions say (parameterNotFoundAction Deny)", some(denying)))
	}
	return out
}

// refusedFunctions are the functions of the cluster that need requests which a failure of
// the policy refuses.
func refusedFunctions(r *classify.Report, p *inventory.AdmissionPolicy) []string {
	refusing := *p
	if !r.Matcher.ParamKind(p).Refused { // else no action prevents that
		refusing.Bindings = slices.DeleteFunc(slices.Clone(p.Bindings), func(b *inventory.PolicyBinding) bool { return !b.Denies() })
	}
	if !p.FailsClosed() || len(refusing.Bindings) == 0 {
		return nil
	}
	return stops(r.Matcher.PolicyResources(&refusing), func(f function) bool {
		request, err := r.Matcher.OpenRequest(f.operation, f.resource, admission.Subject{Namespace: f.namespace})
		return err == nil && slices.ContainsFunc(refusing.Bindings, func(b *inventory.PolicyBinding) bool {
			return r.Matcher.MatchPolicy(request, &refusing, b).Match != admission.No
		})
	})
}
