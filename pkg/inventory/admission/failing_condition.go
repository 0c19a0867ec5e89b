package admission

import (
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// FailingCondition is a matchCondition that fails for every request to a
// resource, so that its webhook is never called for that: the API server refuses
// the request, or skips the webhook, as its failurePolicy says.
type FailingCondition struct {
	inventory.Resource
	// Operations are those for which it fails.
	Operations Operations
	// Index is that in the webhook's matchConditions.
	Index int
	// Reason is what the API server says.
	Reason string
	// Alone says that no other matchCondition can be false, which would skip the
	// webhook before the failure counts.
	Alone bool
}

// FailingConditions returns the first matchCondition that always fails, by
// resource, sorted. What is not known of a request, such as its object or user,
// makes no failure. The result is kept, and must not be written to.
func (m *Matcher) FailingConditions(w *inventory.Webhook) []FailingCondition {
	if w.Type == inventory.Conversion || len(w.MatchConditions) == 0 {
		return nil
	}
	return m.index.failing.getOrCompute(&w.Registration, func() []FailingCondition {
		return m.failingConditions(&w.Registration, webhookParams, m.covered(w))
	})
}

// FailingPolicyConditions returns the same of a policy with a binding. Where it takes
// params, these are not known.
func (m *Matcher) FailingPolicyConditions(p *inventory.AdmissionPolicy) []FailingCondition {
	params := openParams
	switch {
	case len(p.MatchConditions) == 0 || len(p.Bindings) == 0:
		return nil
	case p.ParamKind == nil:
		params = nullParams
	}
	return m.index.failing.getOrCompute(&p.Registration, func() []FailingCondition {
		return m.failingConditions(&p.Registration, params, m.PolicyResources(p))
	})
}

func (m *Matcher) failingConditions(w *inventory.Registration, params paramsKnown, covered []MatchedResource) []FailingCondition {
	var out []FailingCondition
	for _, r := range covered {
		first := len(out)
		for _, op := range r.Operations.List() {
			f, fails := m.alwaysFails(w, params, r.Resource, op)
			f.Resource, f.Operations = r.Resource, operationsOf(op)
			switch {
			case !fails:
			case len(out) > first && out[first].Index == f.Index && out[first].Alone == f.Alone:
				out[first].Operations |= f.Operations
			default:
				out = append(out, f)
			}
		}
	}
	return out
}

// alwaysFails asks the matchConditions about a request of which nothing is known
// but its resource and operation, in every version.
func (m *Matcher) alwaysFails(w *inventory.Registration, params paramsKnown, r inventory.Resource, op Operation) (FailingCondition, bool) {
	out := FailingCondition{Alone: true}
	versions := m.index.servedVersions(r)
	for i, v := range versions {
		request := m.cachedRequest(v, op, Subject{})
		at := request.stageOf(w.Type, request.unresolvedKind())
		at.params = params
		f, fails := request.failing(w, at)
		if !fails {
			return FailingCondition{}, false
		}
		if i == 0 {
			out.Index, out.Reason = f.Index, f.Reason
		}
		out.Alone = out.Alone && f.Alone
	}
	return out, len(versions) > 0
}

// failing returns the first matchCondition that fails. Where another one is
// false, none counts.
func (r Request) failing(w *inventory.Registration, at stage) (FailingCondition, bool) {
	out, fails := FailingCondition{Alone: true}, false
	for i, c := range w.MatchConditions {
		o := r.outcome(at, c.Expression)
		switch {
		case o.Match == No:
			return FailingCondition{}, false
		case o.failure != nil && !fails:
			out.Index, out.Reason, fails = i, o.failure.Error(), true
		case o.failure == nil && o.Match == Maybe:
			out.Alone = false
		}
	}
	return out, fails
}
