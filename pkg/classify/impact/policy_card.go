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

// PolicyCards are those of the admission policy of the type with the name; none where
// the input has no such policy.
func PolicyCards(r *classify.Report, ref inventory.Ref) []Card {
	for _, p := range r.Snapshot.Policies {
		if p.Type == ref.Type && p.Name == ref.Configuration {
			return []Card{newPolicyCard(r, p)}
		}
	}
	return nil
}

func newPolicyCard(r *classify.Report, p *inventory.AdmissionPolicy) Card {
	return Card{Policy: p, Sections: []Section{
		policyAdds(r, p), policyModifies(p), policyIndicators(p), policyFailures(r, p), policyHealth(r, p), teams(p.Object),
		policyDetection(r, p), policyDisabling(p), policyAfterwards(p), policyResuming(p),
	}}
}

func policyAdds(r *classify.Report, p *inventory.AdmissionPolicy) Section {
	s := Section{ID: "adds", Heading: headingExtensions, Question: "Which API extensions are added"}
	s.Answers = append(s.Answers, fmt.Sprintf("the %s %s%s; the API server evaluates it itself: it calls nothing, and no request waits for a network", p.Object.Kind, p.Name, installed(&p.Registration)))
	for _, rule := range rulesInWords(&p.RuleSet) {
		s.Answers = append(s.Answers, "it is evaluated for "+rule)
	}
	for _, rule := range rulesInWords(&p.Excluded) {
		s.Answers = append(s.Answers, "it is not evaluated for "+rule)
	}
	s.Answers = append(s.Answers, filters(r.Snapshot, &p.Registration)...)
	if p.ParamKind != nil {
		s.Answers = append(s.Answers, fmt.Sprintf("its expressions read params: objects of %s %s", p.ParamKind.APIVersion, p.ParamKind.Kind))
	}
	for _, b := range p.Bindings[:min(len(p.Bindings), maxListed)] {
		s.Answers = append(s.Answers, bindingInWords(r.Snapshot, p, b))
	}
	switch more := len(p.Bindings) - maxListed; {
	case len(p.Bindings) == 0:
		s.Answers = append(s.Answers, "no binding names it: it has no effect until one does")
	case more > 0:
		s.Answers = append(s.Answers, fmt.Sprintf("%s more put it into effect", inventory.Counted(more, "binding")))
	}
	covered := r.Matcher.PolicyResources(p)
	s.Answers = append(s.Answers, fmt.Sprintf("that covers %s of this cluster: %s", inventory.Counted(len(covered), "resource"), resources(covered)))
	return s
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
	var out strings.Builder
	out.WriteString(fmt.Sprintf("binding %s puts it into effect", b.Object.Name))
	if len(b.Actions) > 0 {
		out.WriteString(", with validationActions " + some(text.Strings(b.Actions)))
	}
	for _, rule := range rulesInWords(&b.RuleSet) {
		out.WriteString("; for " + rule)
	}
	for _, rule := range rulesInWords(&b.Excluded) {
		out.WriteString("; not for " + rule)
	}
	for _, filter := range selectors(s, &b.MatchResources) {
		out.WriteString("; " + filter)
	}
	switch {
	case p.ParamKind == nil || b.ParamRef == nil:
	case b.DeniesWithoutParams():
		out.WriteString("; with " + admission.ParamName(p, b.ParamRef) + ": where that does not exist, it fails (parameterNotFoundAction Deny)")
	default:
		out.WriteString("; with " + admission.ParamName(p, b.ParamRef) + ": where that does not exist, requests pass (parameterNotFoundAction Allow)")
	}
	return out.String()
}

func policyModifies(p *inventory.AdmissionPolicy) Section {
	s := Section{ID: "modifies", Heading: headingExtensions, Question: "How the behavior of existing resources is modified"}
	switch {
	case p.Type == inventory.MutatingPolicy:
		s.Answers = []string{"it may change the objects that it is evaluated for"}
		if p.Reinvocation == admissionv1.IfNeededReinvocationPolicy {
			s.Answers = append(s.Answers, "it is evaluated again where the object is changed after it (reinvocationPolicy IfNeeded)")
		}
		s.Blanks = []string{"which fields of which objects it sets, and to what"}
	case p.Denies():
		s.Answers = []string{"it may refuse the requests that it is evaluated for; it changes no object"}
		s.Blanks = []string{"what it refuses, and why"}
	default:
		s.Answers = []string{"no binding lets what it finds refuse a request: it warns, or is recorded in the audit log"}
	}
	return s
}

// policyIndicators: what refuses for its configuration is in none of the policy's own
// series.
func policyIndicators(p *inventory.AdmissionPolicy) Section {
	name := `policy=` + strconv.Quote(p.Name)
	own := Query{"violations and failures of its expressions by what is done about them, a second", `sum by (enforcement_action) (rate(` + promql.Validations + `{` + name + `}[5m]))`}
	kind, plugin := "validate", "ValidatingAdmissionPolicy"
	if p.Type == inventory.MutatingPolicy {
		own = Query{"mutations that fail, a second", `sum(rate(` + promql.Mutations + `{` + name + `,error_type!="no_error"}[5m]))`}
		kind, plugin = "admit", "MutatingAdmissionPolicy"
	}
	return Section{
		ID: "slis", Heading: headingExtensions, Question: "Which SLIs show the health of the API extensions",
		Answers: []string{"the API servers' own series; requests that are refused for the policy's params are in none of them by its name"},
		Queries: []Query{
			own,
			{"requests that policies of the type refuse, a second", `sum(rate(` + promql.PluginSeconds + `_count{name="` + plugin + `",type="` + kind + `",rejected="true"}[5m]))`},
			{"open findings", `max by (check, severity) (webhook_auditor_finding{type="` + string(p.Type) + `",name=` + strconv.Quote(p.Name) + `})`},
		},
	}
}

func policyFailures(r *classify.Report, p *inventory.AdmissionPolicy) Section {
	s := Section{ID: "failure-modes", Heading: headingFailures, Question: "Which failures are possible"}
	outcome := "let through (failurePolicy Ignore)"
	switch {
	case p.FailsClosed() && p.Denies():
		outcome = "refused (failurePolicy Fail)"
	case p.FailsClosed():
		outcome = "let through, as no binding denies"
	}
	s.Answers = append(s.Answers, "an expression fails, or costs more than the API server allows: the request is "+outcome)
	if p.ParamKind != nil {
		s.Answers = append(s.Answers, paramFailures(r, p)...)
	}
	if p.Type == inventory.MutatingPolicy {
		s.Answers = append(s.Answers, "the result of a JSON patch does not decode, or the CRD of the object is a few seconds old: the request is refused, whatever the failurePolicy")
	}
	s.Answers = append(s.Answers, "it refuses or changes what it should not: such requests fail with its message")
	return s
}

// paramFailures are what becomes of requests where params or their kind are missing:
// no binding, action or matchCondition prevents that.
func paramFailures(r *classify.Report, p *inventory.AdmissionPolicy) []string {
	kind := fmt.Sprintf("%s %s", p.ParamKind.APIVersion, p.ParamKind.Kind)
	missing := "the kind of its params (" + kind + ") is not served: every request that its rules and selectors match is "
	if !p.FailsClosed() {
		return []string{missing + "let through (failurePolicy Ignore)"}
	}
	out := []string{missing + "refused, whatever its bindings and matchConditions say (failurePolicy Fail)"}
	switch v := r.Matcher.ParamKind(p); {
	case v.Refused:
		out = append(out, "that is so now: "+v.Detail)
	case v.Match == admission.Maybe:
		out = append(out, "whether it is served is not known from this input")
	}
	if denying := bindingNames(p, (*inventory.PolicyBinding).DeniesWithoutParams); len(denying) > 0 {
		out = append(out, fmt.Sprintf("its params do not exist: every request that it matches by %s is refused, whatever the validationActions say (parameterNotFoundAction Deny)", some(denying)))
	}
	return out
}

// bindingNames are the names of the bindings that are so.
func bindingNames(p *inventory.AdmissionPolicy, is func(*inventory.PolicyBinding) bool) []string {
	var out []string
	for _, b := range p.Bindings {
		if is(b) {
			out = append(out, b.Object.Name)
		}
	}
	return out
}

func policyHealth(r *classify.Report, p *inventory.AdmissionPolicy) Section {
	s := Section{ID: "cluster-health", Heading: headingFailures, Question: "How a failure affects the health of the cluster"}
	if p.FailsClosed() {
		for _, stop := range policyStops(r, p) {
			verb := "stops"
			if stop.Match == admission.Maybe {
				verb = "may stop"
			}
			s.Answers = append(s.Answers, fmt.Sprintf("while it refuses what it matches, this %s: %s", verb, stop.Function))
		}
	}
	if len(s.Answers) == 0 {
		s.Answers = []string{"no function of the cluster itself is known to need the requests that it can refuse"}
	}
	return s
}

// policyStops are the functions of the cluster that need requests which a failure of
// the policy refuses.
func policyStops(r *classify.Report, p *inventory.AdmissionPolicy) []Stop {
	refusing := *p
	if !r.Matcher.ParamKind(p).Refused { // else no action prevents that
		refusing.Bindings = slices.DeleteFunc(slices.Clone(p.Bindings), func(b *inventory.PolicyBinding) bool { return !b.Denies() })
	}
	if len(refusing.Bindings) == 0 {
		return nil
	}
	covered := r.Matcher.PolicyResources(&refusing)
	var out []Stop
	for _, f := range functions {
		i := slices.IndexFunc(covered, func(m admission.MatchedResource) bool {
			return m.Resource == f.resource && m.Operations.Has(f.operation)
		})
		if i < 0 {
			continue
		}
		if m := f.matchPolicy(r.Matcher, &refusing, covered[i].Namespaced); m != admission.No {
			out = append(out, Stop{f.name, m})
		}
	}
	return out
}

// matchPolicy is the best match by a binding. Of a function in whichever namespace, some
// request may match.
func (f function) matchPolicy(m *admission.Matcher, p *inventory.AdmissionPolicy, namespaced bool) admission.Match {
	out, anywhere := admission.No, f.namespace == "" && namespaced
	if anywhere {
		out = admission.Maybe
	}
	request, err := m.OpenRequest(f.operation, f.resource, admission.Subject{Namespace: f.namespace})
	if err != nil {
		return out
	}
	for _, b := range p.Bindings {
		switch v := m.MatchPolicy(request, p, b); {
		case v.Match == admission.Yes && (!anywhere || p.NamespaceSelector.Empty() && b.NamespaceSelector.Empty()):
			return admission.Yes
		case v.Match != admission.No:
			out = admission.Maybe
		}
	}
	return out
}

func policyDetection(r *classify.Report, p *inventory.AdmissionPolicy) Section {
	prefix := fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '…' denied request", p.Name)
	if p.Type == inventory.MutatingPolicy {
		prefix = fmt.Sprintf("policy '%s' with binding '…' denied request", p.Name)
	}
	return Section{
		ID: "detection", Heading: headingSupport, Question: "How a failure is detected",
		Answers: append([]string{fmt.Sprintf(`errors of clients, and Events of controllers that create Pods, say "%s"; webhook-auditor explain --error 'MESSAGE' explains them`, prefix)}, foundNow(r, p.Ref)...),
	}
}

func policyDisabling(p *inventory.AdmissionPolicy) Section {
	s := Section{ID: "disabling", Heading: headingSupport, Question: "How it is disabled"}
	if len(p.Bindings) == 0 {
		s.Answers = []string{"no binding names it: there is nothing to disable"}
		return s
	}
	commands := classify.PolicyCommands(p)
	s.Commands = []string{commands.Save, commands.Disable}
	s.Answers = []string{"delete its bindings: no policy or webhook of the API can refuse that, and each API server follows within seconds"}
	if len(p.Bindings) > classify.MaxBindings {
		s.Answers = append(s.Answers, fmt.Sprintf("the commands name the first %d of its %d bindings", classify.MaxBindings, len(p.Bindings)))
	}
	if commands.Reverts != "" {
		s.Answers = append(s.Answers, commands.Reverts)
	} else {
		s.Blanks = []string{"whether its operator puts the bindings back, and how that is stopped"}
	}
	return s
}

func policyAfterwards(p *inventory.AdmissionPolicy) Section {
	s := Section{ID: "disabled-cluster", Heading: headingSupport, Question: "Which consequences disabling it has"}
	s.Answers = []string{"objects that exist stay as they are: admission is about requests"}
	if p.Type == inventory.MutatingPolicy {
		s.Answers = append(s.Answers, "new and changed objects lack what it sets, until they are created anew")
		s.Blanks = []string{"whether workloads work without that"}
		return s
	}
	s.Answers = append(s.Answers, "new and changed objects are not checked by it")
	return s
}

func policyResuming(p *inventory.AdmissionPolicy) Section {
	s := Section{
		ID: "resuming", Heading: headingSupport, Question: "Whether functionality resumes when it is enabled again, without risk to consistency",
		Answers: []string{"it is evaluated again within seconds; objects that were written meanwhile are not, until they are written again"},
	}
	if len(p.Bindings) > 0 {
		s.Commands = []string{classify.PolicyCommands(p).Restore}
	}
	return s
}
