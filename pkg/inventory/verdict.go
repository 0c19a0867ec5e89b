package inventory

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Called says whether a webhook is called for a request.
type Called string

// The answers. Maybe depends on what the request leaves open.
const (
	Yes   Called = "yes"
	No    Called = "no"
	Maybe Called = "maybe"
)

// Why is what keeps a webhook from being called, or may do so.
type Why string

// The reasons, in the order in which they are looked for. WhyExcluded: the API
// server calls no webhook at all for the resource.
const (
	WhyExcluded          Why = "excluded"
	WhyRules             Why = "rules"
	WhyScope             Why = "scope"
	WhyNamespaceSelector Why = "namespaceSelector"
	WhyObjectSelector    Why = "objectSelector"
	WhyMatchConditions   Why = "matchConditions"
)

// Verdict says whether a webhook is called for a request.
type Verdict struct {
	Called Called
	// Why is "" where the webhook is certainly called.
	Why Why
	// Refused says that the API server refuses the request instead of calling
	// the webhook, because it cannot tell whether to.
	Refused bool
	// OptIn says that it is called only if the namespace, whose labels are not
	// known, has the labels that the namespaceSelector asks for.
	OptIn bool
	// Detail says more, in words that follow "because"; it may be "".
	Detail string
}

// Reaches says whether the webhook is called for the request, as the API
// server decides it. Each of its filters can only take away, so that their
// order does not matter for the answer; they are asked in the order in which
// people want to hear of them. Source: ShouldCallHook in
// k8s.io/apiserver/pkg/admission/plugin/webhook/generic.
func (w *Webhook) Reaches(r Request) Verdict {
	if r.circumstances == nil || w.Type == Conversion {
		return Verdict{Called: No, Why: WhyRules}
	}
	if r.never {
		return Verdict{Called: No, Why: WhyExcluded}
	}
	kind, why := w.invocation(r)
	if why != "" {
		return Verdict{Called: No, Why: why}
	}
	verdict := w.selectsNamespace(r).and(w.selectsObject(r))
	if verdict.Called == No || verdict.Refused {
		return verdict
	}
	return verdict.and(r.conditions(w, kind))
}

// reachesEither is Reaches, and Maybe where that depends on whether the object
// of an update exists.
func (w *Webhook) reachesEither(r Request) Verdict {
	verdict := w.Reaches(r)
	if r.circumstances == nil || r.created == nil {
		return verdict
	}
	created := w.Reaches(*r.created)
	switch {
	case verdict.Called == No && created.Called != No:
		return Verdict{Called: Maybe, Why: verdict.Why, Detail: "only if the object does not exist: the request creates it then"}
	case verdict.Called == Yes && created.Called == No:
		return Verdict{Called: Maybe, Why: created.Why, Refused: false, Detail: "only if the object exists: the request creates it otherwise"}
	case verdict.Called == Yes && created.Called == Maybe:
		return created
	}
	return verdict
}

// and joins the verdicts of two filters: the first that is not sure of a call
// gives the reason.
func (v Verdict) and(o Verdict) Verdict {
	switch {
	case v.Called == No || o.Called == Yes && !o.Refused:
		return v
	case o.Called == No:
		return o
	case v.Called == Maybe && o.Refused:
		v.Detail += "; if it does, " + o.Detail
		return v
	case v.Called == Maybe:
		v.Detail += "; " + o.Detail
		return v
	}
	return o
}

// invocation returns the kind in which the webhook gets the request's object,
// or why no rule covers it: a rule that covers the request itself decides, else
// the first that covers something equivalent.
func (w *Webhook) invocation(r Request) (Kind, Why) {
	own := apiVersion{r.Resource, r.Version, r.Kind, r.namespaced, true}
	scope := false
	for i := range w.Rules {
		switch ruleCovers(&w.Rules[i], own, r.Operation) {
		case "":
			return r.Kind, ""
		case WhyScope:
			scope = true
		}
	}
	if w.MatchPolicy != admissionv1.Exact {
		for i := range w.Rules {
			if kind, ok := equivalent(&w.Rules[i], r); ok {
				return kind, ""
			}
		}
	}
	if scope {
		return Kind{}, WhyScope
	}
	return Kind{}, WhyRules
}

// equivalent returns the kind of what the rule covers of the request's
// equivalents. Where it covers several, the order in which the API server
// registered them decides, which is not known.
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
// resource, WhyScope if nothing but the scope is against it, else WhyRules.
func ruleCovers(rule *admissionv1.RuleWithOperations, v apiVersion, op Operation) Why {
	switch {
	case !coversName(rule.Resources, v.Resource),
		!covers(rule.APIGroups, v.Group),
		!covers(rule.APIVersions, v.Version),
		!ruleOperations(rule).Has(op):
		return WhyRules
	case !coversScope(rule.Scope, v.Resource, v.Namespaced):
		return WhyScope
	}
	return ""
}

// unreadable is the verdict of a selector that cannot be read. The API server
// stores none such; in files they occur.
func unreadable(s Selector, field string) Verdict {
	return Verdict{Called: Yes, Refused: true, Detail: fmt.Sprintf("its %s cannot be read, which refuses the request: %v", field, s.Err)}
}

// cluster reports whether the request is about something outside namespaces,
// which no namespaceSelector exempts.
func (r Request) cluster() bool {
	return r.Namespace == "" && !r.anywhere && r.Resource.Name != "namespaces"
}

func (w *Webhook) selectsNamespace(r Request) Verdict {
	if r.cluster() {
		return Verdict{Called: Yes}
	}
	if w.NamespaceSelector.Err != nil {
		return unreadable(w.NamespaceSelector, "namespaceSelector")
	}
	switch w.NamespaceSelector.match(r.namespace) {
	case Yes:
		return Verdict{Called: Yes}
	case Maybe:
		return w.selectsUnknown(r)
	}
	return Verdict{Called: No, Why: WhyNamespaceSelector}
}

// selectsUnknown is the verdict where labels of the namespace decide that are
// not known. A namespace without any is either selected or not.
func (w *Webhook) selectsUnknown(r Request) Verdict {
	verdict := Verdict{Called: Maybe, Why: WhyNamespaceSelector, Detail: "the labels of the namespace are not known"}
	if r.anywhere {
		return verdict
	}
	unlabeled := labelSet{known: r.namespace.known, complete: true}
	verdict.OptIn = w.NamespaceSelector.match(unlabeled) == No
	condition := "unless it has one that the namespaceSelector excludes"
	if verdict.OptIn {
		condition = "only if it has those that the namespaceSelector asks for"
	}
	verdict.Detail = fmt.Sprintf("the labels of namespace %s are not known: called %s (%s)", r.Namespace, condition, w.NamespaceSelector)
	return verdict
}

// selectsObject asks the objectSelector about the object as the request makes
// it and, in an update, as the request finds it: either is enough. What a
// CONNECT sends carries no labels at all.
func (w *Webhook) selectsObject(r Request) Verdict {
	called, unknown := w.ObjectSelector.match(r.object), "the labels of the object are not known"
	if called == No && r.Operation == Update {
		called, unknown = w.ObjectSelector.match(r.before), "the labels that the object had before are not known"
	}
	switch {
	case w.ObjectSelector.Err != nil:
		return unreadable(w.ObjectSelector, "objectSelector")
	case w.ObjectSelector.Empty():
		return Verdict{Called: Yes}
	case r.Operation == Connect || called == No:
		return Verdict{Called: No, Why: WhyObjectSelector}
	case called == Maybe:
		return Verdict{Called: Maybe, Why: WhyObjectSelector, Detail: unknown}
	}
	return Verdict{Called: Yes}
}

// String returns what the selector wants, as kubectl writes it.
func (s Selector) String() string { return metav1.FormatLabelSelector(s.Raw) }
