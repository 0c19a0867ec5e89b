package admission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// PolicyStep is a policy, the binding by which it applies and the verdict on both.
type PolicyStep struct {
	Policy *inventory.AdmissionPolicy
	// Binding is nil where the policy decides whatever binds it.
	Binding *inventory.PolicyBinding
	Verdict
}

func (m *Matcher) policySteps(r Request, p *inventory.AdmissionPolicy) []PolicyStep {
	if len(p.Bindings) == 0 {
		return []PolicyStep{{p, nil, Verdict{Match: No, Reason: ReasonBinding, Detail: "it has no binding"}}}
	}
	all := r.either(func(q Request) Verdict { return m.MatchPolicy(q, p, nil) })
	if all.Match == No || all.Refused {
		return []PolicyStep{{p, nil, all}}
	}
	return lists.Map(p.Bindings, func(b *inventory.PolicyBinding) PolicyStep {
		return PolicyStep{p, b, r.either(func(q Request) Verdict { return m.MatchPolicy(q, p, b) })}
	})
}

// MatchPolicy says whether the policy is evaluated for the request by the binding, or
// by any where b is nil. Refused says that it cannot be, which refuses the request.
// Source: Dispatch in k8s.io/apiserver/pkg/admission/plugin/policy/generic, whose order
// it keeps: what is wrong with the params' kind counts before anything of a binding.
func (m *Matcher) MatchPolicy(r Request, p *inventory.AdmissionPolicy, b *inventory.PolicyBinding) Verdict {
	switch {
	case r.requestContext == nil || neverSees(p.Ref, r.unjudged, r.Resource):
		return Verdict{Match: No, Reason: ReasonExcluded}
	case p.Type == inventory.MutatingPolicy && r.Operation == Delete:
		return Verdict{Match: No, Reason: ReasonRules} // also of those for all operations
	}
	kind, verdict := r.covers(p.Type, &p.MatchResources)
	if verdict.Match == No {
		return verdict
	}
	ofKind := m.ParamKind(p)
	if verdict = verdict.and(ofKind); b == nil || verdict.Match == No || verdict.Refused {
		return orIgnored(p, verdict)
	}
	_, bound := r.covers(p.Type, &b.MatchResources)
	if bound.Match == No {
		return orRefused(p, ofKind,
			Verdict{Match: No, Reason: ReasonBinding, Detail: fmt.Sprintf("binding %s leaves it out by its %s", b.Object.Name, bound.Reason)})
	}
	params := m.paramsVerdict(r, p, b)
	verdict = verdict.and(bound).and(params)
	if verdict.Match == No || verdict.Refused {
		return orIgnored(p, verdict)
	}
	stage := r.stageOf(p.Type, kind)
	stage.params = r.paramsBy(p, b)
	verdict = m.mutable(r, p, kind, verdict.and(r.conditionsOf(p, b, stage)))
	if params.Refused || b.DeniesWithoutParams() {
		ofKind = ofKind.and(params)
	}
	return orRefused(p, ofKind, verdict)
}

// orRefused is a verdict that comes after one on the params, which may refuse the
// request before: what binds the policy, and its matchConditions, cannot prevent that.
func orRefused(p *inventory.AdmissionPolicy, params, v Verdict) Verdict {
	switch {
	case v.Match != No || !p.FailsClosed() || params.Match == Yes && !params.Refused:
		return v
	case params.Refused: // where its selectors let it through, which is unknown
		params.Match, params.Refused, params.Detail = Maybe, false, "if its selectors select the request, "+params.Detail
	}
	return params
}

// mutable is the verdict on what a policy makes of an object that it meets in another
// kind than the request's. One that the API server does not serve, as an unserved version
// of a CRD, has no schema to mutate by: that refuses the request whatever the
// failurePolicy. Source: dispatchOne in
// k8s.io/apiserver/pkg/admission/plugin/policy/mutating.
func (m *Matcher) mutable(r Request, p *inventory.AdmissionPolicy, kind Kind, v Verdict) Verdict {
	_, served := m.index.kinds[kind]
	switch {
	case v.Refused || v.Match == No || p.Type != inventory.MutatingPolicy:
		return v
	case kind.Unsure:
		return v.and(Verdict{Match: Maybe, Reason: ReasonRules, Detail: "it meets the object in one of several versions, and from some the API server converts nothing back"})
	case p.AppliesConfigurations() && withoutType(r, kind):
		return v.and(orIgnored(p, Verdict{Match: Yes, Refused: true, Reason: ReasonRules, Detail: fmt.Sprintf("its applyConfiguration has no type to apply to (%s)%s",
			kind, refusing)}))
	case v.Match == Maybe:
		return v
	case !served && kind != r.Kind:
		return Verdict{Match: Yes, Refused: true, Reason: ReasonRules, Detail: fmt.Sprintf("its rules ask for %s/%s, which the API server does not serve%s whatever the failurePolicy",
			kind.Group, kind.Version, refusing)}
	case kind.Group == "" && r.Kind.Group == eventsGroup:
		return Verdict{Match: Maybe, Reason: ReasonRules, Detail: fmt.Sprintf("it meets the object as %s, of which the API server takes no changes back", kind)}
	case m.irreversible(r, kind):
		return orIgnored(p, Verdict{Match: Yes, Refused: true, Reason: ReasonRules, Detail: fmt.Sprintf("it meets the object as %s, which the API server cannot convert back%s",
			kind, refusing)})
	}
	return v
}

// withoutType reports whether the API server has no type of the kind to apply a
// configuration to: its OpenAPI documents hold the kinds of a group alone, neither those
// of subresources from another group nor the options of a CONNECT. Source:
// TypeConverterManager in k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch.
func withoutType(r Request, kind Kind) bool {
	return r.Operation == Connect || r.Resource.Subresource != "" && kind.Group != r.Resource.Group
}

// Unapplied are requests to a resource of which a policy changes nothing, as there is no
// type to apply its configuration to. Whether they are refused is for the failurePolicy to
// say.
type Unapplied struct {
	MatchedResource
	// All says that it is so of all requests, Namespaces are those in which it is so of all,
	// and Presumed says that it is so but where a namespace has a label that is unknown.
	All, Presumed bool
	Namespaces    []string
	// Filter is what decides about other requests.
	Filter Reason
}

// Certain reports whether some requests are known of which it is so.
func (u Unapplied) Certain() bool { return u.All || u.Presumed || len(u.Namespaces) > 0 }

// UnappliedResources are those of which some requests may be Unapplied, sorted.
func (m *Matcher) UnappliedResources(p *inventory.AdmissionPolicy) []Unapplied {
	var out []Unapplied
	if !p.AppliesConfigurations() {
		return nil
	}
	for _, r := range m.PolicyResources(p) {
		if u := m.UnappliedRequests(p, r, Subject{}); u.Operations != 0 {
			out = append(out, u)
		}
	}
	return out
}

// UnappliedRequests are those of the subject, in all namespaces.
func (m *Matcher) UnappliedRequests(p *inventory.AdmissionPolicy, r MatchedResource, subject Subject) Unapplied {
	closed := *p
	closed.FailurePolicy = admissionv1.Fail // what is ignored refuses nothing
	out, verdict := Unapplied{}, Verdict{}
	out.MatchedResource = r
	out.Operations, verdict = m.unapplied(&closed, r, subject)
	out.All, out.Filter = verdict.Match == Yes, verdict.Reason
	out.Presumed = verdict.Presumed() && len(p.MatchConditions) == 0 && !m.Snapshot.NamespacesKnown
	if verdict.Match != Maybe || !r.Namespaced || !m.Snapshot.NamespacesKnown {
		return out
	}
	selectors := []inventory.Selector{p.NamespaceSelector}
	for _, b := range p.Bindings {
		selectors = append(selectors, b.NamespaceSelector)
	}
	reads := slices.ContainsFunc(p.MatchConditions,
		func(c admissionv1.MatchCondition) bool { return strings.Contains(c.Expression, "amespace") })
	others := false
	for _, class := range MentionsOf(selectors...).Namespaces(m.Snapshot) {
		for i, name := range class {
			if i == 0 || reads {
				subject.Namespace = name
				_, verdict = m.unapplied(&closed, r, subject)
			}
			if others = others || verdict.Match != Yes; verdict.Match == Yes {
				out.Namespaces = append(out.Namespaces, name)
			}
		}
	}
	slices.Sort(out.Namespaces)
	out.All = !others
	return out
}

// unapplied says of which operations some requests may be Unapplied, and whether all are.
func (m *Matcher) unapplied(p *inventory.AdmissionPolicy, r MatchedResource,
	subject Subject,
) (ops Operations, all Verdict) {
	for _, v := range m.index.servedVersions(r.Resource) {
		for _, op := range r.Operations.List() {
			request := m.cachedRequest(v, op, subject)
			if !withoutType(request, v.Kind) {
				continue
			}
			verdict := m.refusedByRules(p, request)
			if verdict.Match != No {
				ops |= operationBits[op]
			}
			switch {
			case all.Match == "":
				all = verdict
			case all.Match != verdict.Match:
				all = Verdict{Match: Maybe, Reason: cmp.Or(all.Reason, verdict.Reason)}
			}
		}
	}
	return ops, all
}

// refusedByRules is the surest verdict of a binding that refuses what the policy has no
// type for, with a Reason where it is not certain.
func (m *Matcher) refusedByRules(p *inventory.AdmissionPolicy, r Request) Verdict {
	out := Verdict{Match: No, Reason: ReasonRules}
	for _, b := range p.Bindings {
		switch v := m.MatchPolicy(r, p, b); {
		case v.Refused && v.Reason == ReasonRules:
			return Verdict{Match: Yes}
		case v.Match == Maybe:
			out = v
		}
	}
	return out
}

const eventsGroup = "events.k8s.io"

// irreversible reports whether the API server fails to convert what a policy made of the
// object: between two versions of its own kinds, and to the Scale of a custom resource.
// Custom resources themselves are not converted there. Source: as of mutable, and the
// converters of k8s.io/apiextensions-apiserver.
func (m *Matcher) irreversible(r Request, kind Kind) bool {
	if m.Snapshot.CRDs[r.Resource.Name+"."+r.Resource.Group] != nil {
		return r.Kind.Kind == scaleKind
	}
	return kind != r.Kind
}

// orIgnored is a verdict that refuses nothing where the failurePolicy is Ignore.
func orIgnored(p *inventory.AdmissionPolicy, v Verdict) Verdict {
	if v.Refused && !p.FailsClosed() {
		return Verdict{Match: No, Reason: v.Reason, Detail: strings.TrimSuffix(v.Detail, refusing) + " (failurePolicy Ignore)"}
	}
	return v
}

// PolicyResources returns the resources that the policy is evaluated for by one of its
// bindings, or by any where it has none, sorted. Selectors and matchConditions take
// nothing away.
func (m *Matcher) PolicyResources(p *inventory.AdmissionPolicy) []MatchedResource {
	bound := map[*target]Operations{}
	for _, b := range p.Bindings {
		for t, match := range m.index.askedBy(&b.MatchResources) {
			bound[t] |= match.operations
		}
	}
	var out []MatchedResource
	for t, match := range m.index.askedBy(&p.MatchResources) {
		ops := match.operations
		if len(p.Bindings) > 0 {
			ops &= bound[t]
		}
		if p.Type == inventory.MutatingPolicy {
			ops &^= operationBits[Delete]
		}
		if ops != 0 && !neverSees(p.Ref, slices.Contains(neverJudged, t.Parent()), t.Resource) {
			out = append(out, MatchedResource{t.Resource, t.namespaced, ops, match.named})
		}
	}
	return sorted(out)
}

var everyRequest = []admissionv1.RuleWithOperations{{
	Operations: []admissionv1.OperationType{admissionv1.OperationAll},
	Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
}}

// askedBy is what a policy or a binding asks for and does not exclude for all names.
func (x *index) askedBy(r *inventory.MatchResources) map[*target]ruleMatch {
	rules := r.Rules
	if len(rules) == 0 {
		rules = everyRequest
	}
	out := x.askedTargets(rules, r.MatchPolicy)
	for i := range r.Excluded.Rules {
		if r.Excluded.ResourceNames != nil && len(r.Excluded.ResourceNames[i]) > 0 {
			continue
		}
		x.matches(&r.Excluded.Rules[i], r.MatchPolicy, func(t *target, ops Operations, _ bool) {
			out[t] = ruleMatch{out[t].operations &^ ops, out[t].named}
		})
	}
	return out
}

const refusing = ", which refuses the request"

// conditionsOf are the matchConditions, whose failure a binding may report alone.
func (r Request) conditionsOf(p *inventory.AdmissionPolicy, b *inventory.PolicyBinding, stage stage) Verdict {
	verdict, failed := r.conditions(&p.Registration, stage)
	switch {
	case failed == "":
		return verdict
	case p.FailsClosed() && !b.Denies():
		return verdict // the failure is warned of, or recorded
	}
	return failedConditions(&p.Registration, verdict, failed)
}

// ParamKind is the verdict on the kind of the policy's params: one that the API server
// does not serve refuses all that the policy matches. Files need not hold its CRD.
func (m *Matcher) ParamKind(p *inventory.AdmissionPolicy) Verdict {
	kind := p.ParamKind
	if kind == nil {
		return Verdict{Match: Yes}
	}
	params := kindOfParams(kind)
	_, served := m.index.kinds[params]
	switch {
	case served:
		return Verdict{Match: Yes}
	case m.Snapshot.ResourcesKnown || inventory.IsBuiltinGroup(params.Group):
		return Verdict{Match: Yes, Refused: true, Reason: ReasonParams, Detail: fmt.Sprintf("the API server does not serve the kind of its params (%s %s)%s",
			kind.APIVersion, kind.Kind, refusing)}
	}
	return Verdict{Match: Maybe, Reason: ReasonParams, Detail: fmt.Sprintf("the input does not show whether the kind of its params is served (%s %s): if not, the request is refused", kind.APIVersion, kind.Kind)}
}

// kindOfParams is the kind that a paramKind names. One that cannot be read is never
// served.
func kindOfParams(k *admissionv1.ParamKind) Kind {
	gv, _ := schema.ParseGroupVersion(k.APIVersion)
	return Kind{Group: gv.Group, Version: gv.Version, Kind: k.Kind}
}

// heldParams are the objects of the input that the binding asks for. One whose namespace is not
// stated may be anywhere.
func (r Request) heldParams(p *inventory.AdmissionPolicy, ref *admissionv1.ParamRef) []inventory.Manifest {
	kind := kindOfParams(p.ParamKind)
	selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
	params, served := r.index.kinds[kind]
	if err != nil || !served || !params.Namespaced && ref.Namespace != "" {
		return nil
	}
	namespace := ""
	if params.Namespaced {
		namespace = cmp.Or(ref.Namespace, r.Namespace)
	}
	return lists.Filter(r.index.params[kind], func(o inventory.Manifest) bool {
		named := ref.Selector == nil && o.Name == ref.Name ||
			ref.Selector != nil && selector.Matches(labels.Set(o.Labels))
		return named && o.Namespace == namespace
	})
}

// paramsVerdict is the verdict on the params that the binding asks for: which exist is
// known where WithParams says so, or the input holds them.
func (m *Matcher) paramsVerdict(r Request, p *inventory.AdmissionPolicy, b *inventory.PolicyBinding) Verdict {
	ref := b.ParamRef
	if p.ParamKind == nil || ref == nil {
		return Verdict{Match: Yes}
	}
	params, served := m.index.kinds[kindOfParams(p.ParamKind)]
	exist := m.params[b]
	switch {
	case served && params.Namespaced && ref.Namespace == "" && r.isClusterScoped():
		return Verdict{Match: Yes, Refused: true, Reason: ReasonParams, Detail: fmt.Sprintf("binding %s names no namespace for its params, nor has a cluster-scoped request one%s",
			b.Object.Name, refusing)}
	case served && !params.Namespaced && ref.Namespace != "":
		return Verdict{Match: Yes, Refused: true, Reason: ReasonParams, Detail: fmt.Sprintf("binding %s names a namespace for its params, which are cluster-scoped%s",
			b.Object.Name, refusing)}
	}
	switch {
	case exist == Yes, exist == "" && len(r.heldParams(p, ref)) > 0:
		return Verdict{Match: Yes}
	case exist == No && b.DeniesWithoutParams():
		return Verdict{Match: Yes, Refused: true, Reason: ReasonParams, Detail: fmt.Sprintf("%s does not exist (parameterNotFoundAction Deny)%s",
			paramName(p, ref), refusing)}
	case exist == No:
		return Verdict{Match: No, Reason: ReasonParams, Detail: fmt.Sprintf("%s does not exist (parameterNotFoundAction Allow)", paramName(p, ref))}
	}
	detail := "only if %s exists"
	if b.DeniesWithoutParams() && p.FailsClosed() {
		detail = "if %s does not exist, the request is refused (parameterNotFoundAction Deny)"
	}
	return Verdict{Match: Maybe, Reason: ReasonParams, Detail: fmt.Sprintf(detail, paramName(p, ref))}
}

// paramsBy are the params that expressions of the policy have by a binding: known of one that is
// named, where the input holds it.
func (r Request) paramsBy(p *inventory.AdmissionPolicy, b *inventory.PolicyBinding) paramsKnown {
	if p.ParamKind == nil || b == nil || b.ParamRef == nil {
		return nullParams
	}
	if held := r.heldParams(p, b.ParamRef); b.ParamRef.Name != "" && len(held) > 0 {
		return cmp.Or(paramsKnown(held[len(held)-1].Content), openParams) // the latter counts
	}
	return openParams
}

// ParamQuery is what to ask about the params of a binding: whether the resource has an
// object of the name, or one that the selector selects, in the namespace.
type ParamQuery struct {
	inventory.Resource
	Version, Namespace, Name, Selector string
}

// ParamQueries are those on which the chain depends, by their bindings. There is none where
// the namespace of the request is unknown, or the API server does not serve the kind.
func (m *Matcher) ParamQueries(c Chain) map[*inventory.PolicyBinding]ParamQuery {
	out := map[*inventory.PolicyBinding]ParamQuery{}
	for _, step := range c.Policies {
		b := step.Binding
		if b == nil || b.ParamRef == nil || step.Policy.ParamKind == nil {
			continue
		}
		params, served := m.index.kinds[kindOfParams(step.Policy.ParamKind)]
		q := ParamQuery{
			Resource: params.Resource, Version: params.Version, Namespace: b.ParamRef.Namespace, Name: b.ParamRef.Name,
		}
		selector, err := metav1.LabelSelectorAsSelector(b.ParamRef.Selector)
		if q.Name == "" {
			q.Selector = selector.String()
		}
		if params.Namespaced {
			q.Namespace = cmp.Or(q.Namespace, c.Request.Namespace)
		}
		if served && err == nil && params.Namespaced == (q.Namespace != "") {
			out[b] = q
		}
	}
	return out
}

// paramName names what a paramRef asks for, as "ConfigMap shop/limits".
func paramName(p *inventory.AdmissionPolicy, ref *admissionv1.ParamRef) string {
	name := ref.Name
	if ref.Selector != nil {
		name = "that its selector selects"
	}
	if ref.Namespace != "" {
		return fmt.Sprintf("a %s %s/%s", p.ParamKind.Kind, ref.Namespace, name)
	}
	return fmt.Sprintf("a %s %s", p.ParamKind.Kind, name)
}
