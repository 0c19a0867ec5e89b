package admission

import (
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

type Match string

// The answers. Maybe depends on what the request leaves open.
const (
	Yes   Match = "yes"
	No    Match = "no"
	Maybe Match = "maybe"
)

// Reason is what keeps a webhook from being called, or may do so.
type Reason string

// The reasons, in the order in which they are looked for. ReasonExcluded: the API
// server calls no webhook at all for the resource.
const (
	ReasonExcluded          Reason = "excluded"
	ReasonRules             Reason = "rules"
	ReasonScope             Reason = "scope"
	ReasonNamespaceSelector Reason = "namespaceSelector"
	ReasonObjectSelector    Reason = "objectSelector"
	ReasonMatchConditions   Reason = "matchConditions"
)

// The reasons that policies have beside those.
const (
	ReasonExcludeRules Reason = "excludeResourceRules"
	ReasonBinding      Reason = "binding"
	ReasonParams       Reason = "params"
)

type Verdict struct {
	Match Match
	// Reason is "" where the webhook is certainly called.
	Reason Reason
	// Refused says that the API server refuses the request instead of calling
	// the webhook, because it cannot decide whether to.
	Refused bool
	// OptIn says that it is called only if the namespace, whose labels are
	// unknown, has the labels that the namespaceSelector asks for.
	OptIn bool
	// Detail says more, in words that follow "because"; it may be "".
	Detail string
	// Denied says that a validation of a policy is false for the object, which refuses the
	// request.
	Denied bool
}

// Presumed reports whether the webhook is called unless the namespace has a label
// that is unknown.
func (v Verdict) Presumed() bool {
	return v.Match == Maybe && v.Reason == ReasonNamespaceSelector && !v.OptIn
}

// Match says whether the webhook is called for the request, as the API
// server decides it. Each of its filters can only take away, so that their
// order does not matter for the answer; they are asked in the order of the
// Reasons. Source: ShouldCallHook in
// k8s.io/apiserver/pkg/admission/plugin/webhook/generic.
func (r Request) Match(w *inventory.Webhook) Verdict {
	if r.requestContext == nil || w.Type == inventory.Conversion {
		return Verdict{Match: No, Reason: ReasonRules}
	}
	if neverSees(w.Ref, r.exempt, r.Resource) {
		return Verdict{Match: No, Reason: ReasonExcluded}
	}
	kind, verdict := r.covers(w.Type, &w.MatchResources)
	if verdict.Match == No || verdict.Refused {
		return verdict
	}
	return verdict.and(r.matchConditions(&w.Registration, r.stageOf(w.Type, kind)))
}

// By is the request as the user makes it.
func (r Request) By(u *User) Request {
	context := *r.requestContext
	context.user, context.activations = u, newMemo[stage, cel.PartialActivation]()
	r.requestContext = &context
	return r
}

// covers says whether the request is one that a webhook, policy or binding of the
// type asks for, and the kind in which it gets the object.
func (r Request) covers(t inventory.Type, m *inventory.MatchResources) (Kind, Verdict) {
	kind, verdict := r.rulesCover(t, m)
	if verdict.Match == No {
		return Kind{}, verdict
	}
	return kind, verdict.and(r.selectsNamespace(m).and(r.selectsObject(t, m)))
}

// rulesCover is covers by the rules alone. A policy or binding without any is for all
// requests, a webhook for none. Source:
// k8s.io/apiserver/pkg/admission/plugin/policy/matching.
func (r Request) rulesCover(t inventory.Type, m *inventory.MatchResources) (Kind, Verdict) {
	_, excluded := r.invocation(&m.Excluded, m.MatchPolicy)
	switch excluded.Match {
	case Yes:
		return Kind{}, Verdict{Match: No, Reason: ReasonExcludeRules}
	case Maybe:
		excluded.Reason = ReasonExcludeRules
		excluded.Detail = "unless the object has a name that its excludeResourceRules ask for"
	case No:
		excluded = Verdict{Match: Yes}
	}
	if len(m.Rules) == 0 && t.IsPolicy() {
		return r.Kind, excluded
	}
	kind, verdict := r.invocation(&m.RuleSet, m.MatchPolicy)
	return kind, verdict.and(excluded)
}

// either is the answer to the request, and Maybe where that depends on whether the
// object of an update exists.
func (r Request) either(match func(Request) Verdict) Verdict {
	verdict := match(r)
	if r.requestContext == nil || r.created == nil {
		return verdict
	}
	created := match(*r.created)
	switch {
	case verdict.Match == No && created.Match != No:
		return Verdict{Match: Maybe, Reason: verdict.Reason, Detail: "only if the object does not exist: the request creates it then"}
	case verdict.Match == Yes && created.Match == No:
		return Verdict{Match: Maybe, Reason: created.Reason, Refused: false, Detail: "only if the object exists: the request creates it otherwise"}
	case verdict.Match == Yes && created.Match == Maybe:
		return created
	case verdict.Refused && !created.Refused:
		return Verdict{Match: Maybe, Reason: verdict.Reason, Detail: "if the object exists, " + verdict.Detail}
	case !verdict.Refused && created.Refused:
		return Verdict{Match: Maybe, Reason: created.Reason, Detail: "if the object does not exist, " + created.Detail}
	}
	return verdict
}

// and joins the verdicts of two filters: the first that is not sure of a call
// gives the reason.
func (v Verdict) and(o Verdict) Verdict {
	switch {
	case v.Match == No || o.Match == Yes && !o.Refused:
		return v
	case o.Match == No:
		return o
	case v.Match == Maybe && o.Refused:
		v.Detail += "; if it does, " + o.Detail
		return v
	case v.Match == Maybe:
		v.Detail += "; " + o.Detail
		return v
	}
	return o
}

// invocation returns the kind in which the object is given to what has the rules, or
// why none covers it: a rule that covers the request itself decides, else the first
// that covers something equivalent.
func (r Request) invocation(set *inventory.RuleSet, policy admissionv1.MatchPolicyType) (Kind, Verdict) {
	own := apiVersion{r.Resource, r.Version, r.Kind, r.namespaced, true}
	scope, open := false, Kind{}
	for i := range set.Rules {
		covered := ruleCovers(&set.Rules[i], own, r.Operation)
		scope = scope || covered == ReasonScope
		switch named := r.named(set, i); {
		case covered != "" || named == No:
		case named == Yes:
			return r.Kind, Verdict{Match: Yes}
		default:
			open = r.Kind
		}
	}
	for i := 0; i < len(set.Rules) && policy != admissionv1.Exact; i++ {
		kind, covered := equivalent(&set.Rules[i], r)
		switch named := r.named(set, i); {
		case !covered || named == No:
		case named == Yes && open != (Kind{}) && open != kind:
			return Kind{Kind: kind.Kind, Unsure: true}, Verdict{Match: Yes}
		case named == Yes:
			return kind, Verdict{Match: Yes}
		case open == (Kind{}):
			open = kind
		case open != kind:
			open = Kind{Kind: kind.Kind, Unsure: true}
		}
	}
	return open, uncovered(scope, open)
}

// uncovered is the verdict where no rule covers a request for certain: open is the
// kind in which one does for a name that is unknown.
func uncovered(scope bool, open Kind) Verdict {
	switch {
	case open != (Kind{}):
		return Verdict{Match: Maybe, Reason: ReasonRules, Detail: "only if the object has a name that its rules ask for (resourceNames)"}
	case scope:
		return Verdict{Match: No, Reason: ReasonScope}
	}
	return Verdict{Match: No, Reason: ReasonRules}
}

func (r Request) named(set *inventory.RuleSet, i int) Match {
	switch {
	case set.ResourceNames == nil || len(set.ResourceNames[i]) == 0:
		return Yes
	case r.Name == "":
		return Maybe
	}
	return certain(slices.Contains(set.ResourceNames[i], r.Name))
}

// equivalent returns the kind of what the rule covers of the request's
// equivalents. Where it covers several, the order in which the API server
// registered them decides, which is unknown.
func equivalent(rule *admissionv1.RuleWithOperations, r Request) (Kind, bool) {
	var found []Kind
	for _, v := range r.equivalents {
		if ruleCovers(rule, v, r.Operation) == "" {
			found = append(found, v.Kind)
		}
	}
	switch len(found) {
	case 0:
		return Kind{}, false
	case 1:
		return found[0], true
	}
	return Kind{Kind: found[0].Kind, Unsure: true}, true
}

// ruleCovers returns "" if the rule covers the operation on the version of the
// resource, ReasonScope if nothing but the scope is against it, else ReasonRules.
func ruleCovers(rule *admissionv1.RuleWithOperations, v apiVersion, op Operation) Reason {
	switch {
	case !NamesResource(rule, v.Resource),
		!CoversGroup(rule, v.Group),
		!CoversVersion(rule, v.Version),
		!RuleOperations(rule).Has(op):
		return ReasonRules
	case !coversScope(rule.Scope, v.Resource, v.Namespaced):
		return ReasonScope
	}
	return ""
}

// unreadable is the verdict of a selector that cannot be read. The API server
// stores none such; in files they occur.
func unreadable(s inventory.Selector, field string) Verdict {
	return Verdict{Match: Yes, Refused: true, Detail: fmt.Sprintf("its %s cannot be read, which refuses the request: %v", field, s.Err)}
}

// isClusterScoped reports whether the request is about something outside
// namespaces, which no namespaceSelector exempts.
func (r Request) isClusterScoped() bool {
	return r.Namespace == "" && !r.namespaceUnknown && r.Resource.Name != "namespaces"
}

func (r Request) selectsNamespace(m *inventory.MatchResources) Verdict {
	if r.isClusterScoped() {
		return Verdict{Match: Yes}
	}
	if m.NamespaceSelector.Err != nil {
		return unreadable(m.NamespaceSelector, "namespaceSelector")
	}
	switch r.namespaceLabels.match(m.NamespaceSelector) {
	case Yes:
		return Verdict{Match: Yes}
	case Maybe:
		return r.selectsUnknown(m)
	}
	return Verdict{Match: No, Reason: ReasonNamespaceSelector}
}

// selectsUnknown is the verdict where labels of the namespace decide that are
// not known. A namespace without any is either selected or not.
func (r Request) selectsUnknown(m *inventory.MatchResources) Verdict {
	verdict := Verdict{Match: Maybe, Reason: ReasonNamespaceSelector, Detail: "the labels of the namespace are not known"}
	if r.namespaceUnknown {
		return verdict
	}
	unlabeled := labelSet{values: r.namespaceLabels.values, complete: true}
	verdict.OptIn = unlabeled.match(m.NamespaceSelector) == No
	condition := "unless it has one that the namespaceSelector excludes"
	if verdict.OptIn {
		condition = "only if it has those that the namespaceSelector asks for"
	}
	verdict.Detail = fmt.Sprintf("the labels of namespace %s are not known: called %s (%s)", r.Namespace, condition, m.NamespaceSelector)
	return verdict
}

// selectsObject asks the objectSelector about the object as the request makes
// it and, in an update, as the request finds it: either is enough. What a
// CONNECT sends carries no labels at all.
func (r Request) selectsObject(t inventory.Type, m *inventory.MatchResources) Verdict {
	called, unknown := r.objectLabels.match(m.ObjectSelector), "the labels of the object are not known"
	if r.Operation == Update {
		switch before := r.oldLabels.match(m.ObjectSelector); {
		case called == No:
			called, unknown = before, "the labels that the object had before are not known"
		case before != Yes && r.stageOf(t, r.Kind).prepared:
			called, unknown = Maybe, "the API server may put back the labels that the object had before"
		}
	}
	switch {
	case m.ObjectSelector.Err != nil:
		return unreadable(m.ObjectSelector, "objectSelector")
	case m.ObjectSelector.Empty():
		return Verdict{Match: Yes}
	case r.Operation == Connect || called == No:
		return Verdict{Match: No, Reason: ReasonObjectSelector}
	case called == Maybe:
		return Verdict{Match: Maybe, Reason: ReasonObjectSelector, Detail: unknown}
	}
	return Verdict{Match: Yes}
}
