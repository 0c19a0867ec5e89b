package admission

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// FailingCondition is a matchCondition, or another expression of a policy, that fails for every request to a
// resource, so that its webhook is never called for that: the API server refuses
// the request, or skips the webhook, as its failurePolicy says.
type FailingCondition struct {
	inventory.Resource
	Operations Operations
	// Index is that in the webhook's matchConditions, Field that of another expression of a
	// policy, "" for a matchCondition.
	Index  int
	Field  string
	Reason string
	// Alone says that no other matchCondition can be false, which would skip the
	// webhook before the failure counts.
	Alone bool
}

// FailingConditions returns the first matchCondition that always fails, by
// resource, sorted. What is unknown of a request, such as its object or user,
// makes no failure. The result is kept, and must not be written to.
func (m *Matcher) FailingConditions(w *inventory.Webhook) []FailingCondition {
	if w.Type == inventory.Conversion || len(w.MatchConditions) == 0 {
		return nil
	}
	return m.index.failing.getOrCompute(&w.Registration, func() []FailingCondition {
		return m.failingConditions(evaluated{Registration: &w.Registration}, m.covered(w))
	})
}

// FailingPolicyConditions returns the same of a policy with a binding, and of its
// validations and mutations. Where it takes params, these are unknown.
func (m *Matcher) FailingPolicyConditions(p *inventory.AdmissionPolicy) []FailingCondition {
	if len(p.Bindings) == 0 {
		return nil
	}
	params := openParams
	if p.ParamKind == nil {
		params = nullParams
	}
	return m.index.failing.getOrCompute(&p.Registration, func() []FailingCondition {
		return m.failingConditions(evaluated{&p.Registration, policyExpressions(p), p.Variables, params},
			m.PolicyResources(p))
	})
}

// evaluated is what an API server evaluates: matchConditions and, of a policy, its own
// expressions.
type evaluated struct {
	*inventory.Registration
	expressions []policyExpression
	variables   []admissionv1.Variable
	params      paramsKnown
}

// policyExpression is one that is evaluated where the matchConditions let a request through.
type policyExpression struct{ field, text string }

func policyExpressions(p *inventory.AdmissionPolicy) []policyExpression {
	var out []policyExpression
	for i, v := range p.Validations {
		out = append(out, policyExpression{fmt.Sprintf("validations[%d]", i), v.Expression})
	}
	for i, a := range p.AuditAnnotations {
		out = append(out, policyExpression{fmt.Sprintf("auditAnnotations[%d]", i), a.ValueExpression})
	}
	for i, mutation := range p.Mutations {
		switch {
		case mutation.JSONPatch != nil:
			out = append(out, policyExpression{fmt.Sprintf("mutations[%d].jsonPatch", i), mutation.JSONPatch.Expression})
		case mutation.ApplyConfiguration != nil:
			out = append(out, policyExpression{fmt.Sprintf("mutations[%d].applyConfiguration", i), mutation.ApplyConfiguration.Expression})
		}
	}
	return out
}

func (m *Matcher) failingConditions(w evaluated, covered []MatchedResource) []FailingCondition {
	var out []FailingCondition
	for _, r := range covered {
		first := len(out)
		for _, op := range r.Operations.List() {
			f, fails := m.alwaysFails(w, r.Resource, op)
			f.Resource, f.Operations = r.Resource, operationsOf(op)
			switch {
			case !fails:
			case len(out) > first && out[first].Index == f.Index && out[first].Field == f.Field &&
				out[first].Alone == f.Alone:
				out[first].Operations |= f.Operations
			default:
				out = append(out, f)
			}
		}
	}
	return out
}

// alwaysFails asks the expressions about a request of which nothing is known but its
// resource and operation, in every version.
func (m *Matcher) alwaysFails(w evaluated, r inventory.Resource, op Operation) (FailingCondition, bool) {
	out := FailingCondition{Alone: true}
	versions := m.index.servedVersions(r)
	for i, v := range versions {
		request := m.cachedRequest(v, op, Subject{})
		stage := request.stageOf(w.Type, request.unresolvedKind())
		stage.params = w.params
		f, fails := request.failing(w, stage)
		if !fails {
			return FailingCondition{}, false
		}
		if i == 0 {
			out.Index, out.Field, out.Reason = f.Index, f.Field, f.Reason
		}
		out.Alone = out.Alone && f.Alone
	}
	return out, len(versions) > 0
}

// failing returns the first expression that fails. Where a matchCondition is false, none
// counts.
func (r Request) failing(w evaluated, stage stage) (FailingCondition, bool) {
	out, fails := FailingCondition{Alone: true}, false
	for i, c := range w.MatchConditions {
		o := r.outcome(stage, c.Expression)
		switch {
		case o.Match == No:
			return FailingCondition{}, false
		case o.failure != nil && !fails:
			out.Index, out.Reason, fails = i, o.failure.Error(), true
		case o.failure == nil && o.Match == Maybe:
			out.Alone = false
		}
	}
	if fails || len(w.expressions) == 0 {
		return out, fails
	}
	stage.ofPolicy = true
	vars := r.withVariables(w.variables, stage)
	for _, e := range w.expressions {
		if o := r.programs.programOf(sourceText{e.text, expressionOfPolicy}).run(vars); o.failure != nil {
			out.Field, out.Reason = e.field, o.failure.Error()
			return out, true
		}
	}
	return out, false
}

// withVariables is the activation in which the variables of a policy have their values: an
// error where they have none, which is that of an expression that reads it.
func (r Request) withVariables(variables []admissionv1.Variable, stage stage) cel.PartialActivation {
	if len(variables) == 0 {
		return r.activation(stage)
	}
	values, unknowns := map[string]any{}, r.unknowns(stage)
	inScope := r.variables(stage)
	inScope[plugincel.VariableVarName] = values
	for _, v := range variables {
		vars := partialVars(inScope, unknowns)
		value, err := r.programs.programOf(sourceText{v.Expression, expressionOfPolicy}).value(vars)
		switch {
		case err != nil:
			values[v.Name] = types.WrapErr(err)
		case types.IsUnknown(value):
			unknowns = append(unknowns, cel.AttributePattern(plugincel.VariableVarName).QualString(v.Name))
		default:
			values[v.Name] = value
		}
	}
	return partialVars(inScope, unknowns)
}
