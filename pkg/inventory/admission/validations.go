package admission

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

const maxMessage = 300

// addValidations adds what validating policies say of the object: which validation is false, with its
// message. It is left open where a webhook may change the object before, or a part of it is unknown.
func (c *Chain) addValidations() {
	r := c.Request
	if r.requestContext == nil || r.Object == nil || r.created != nil {
		return
	}
	changed := slices.ContainsFunc(c.Steps, func(s Step) bool { return s.Webhook.Type == inventory.Mutating }) ||
		slices.ContainsFunc(c.Policies, func(s PolicyStep) bool { return s.Policy.Type == inventory.MutatingPolicy })
	for i := range c.Policies {
		if s := &c.Policies[i]; s.Policy.Type == inventory.ValidatingPolicy && s.Match == Yes && !s.Refused {
			s.Verdict = r.validated(s)
			if changed && s.Denied {
				s.Denied, s.Detail = false, s.Detail+"; that is of the object as it is written, which mutations may change before"
			}
		}
	}
}

// validated is the verdict with what the first validation that is false says.
func (r Request) validated(s *PolicyStep) Verdict {
	p, v := s.Policy, s.Verdict
	kind, _ := r.covers(p.Type, &p.MatchResources)
	stage := r.stageOf(p.Type, kind)
	stage.ofPolicy, stage.params = true, r.paramsBy(p, s.Binding)
	vars, open := r.withVariables(p.Variables, stage), ""
	for i := range p.Validations {
		one := &p.Validations[i]
		o := r.programs.programOf(sourceText{one.Expression, conditionOfPolicy}).run(vars)
		switch {
		case o.Match == No:
			return s.denied(fmt.Sprintf("validations[%d] is false: %s", i, r.message(one, vars)))
		case o.failure != nil && p.FailsClosed():
			return s.denied(fmt.Sprintf("validations[%d] fails: %v", i, o.failure))
		case o.failure == nil && o.Match == Maybe && open == "":
			open = fmt.Sprintf("validations[%d] %s", i, o.doubt)
		}
	}
	for i := range p.AuditAnnotations {
		_, err := r.programs.programOf(sourceText{
			p.AuditAnnotations[i].ValueExpression, expressionOfPolicy,
		}).value(vars)
		if err != nil && !errors.Is(err, errCostly) && p.FailsClosed() { // whatever the actions are
			v.Denied, v.Detail = true, fmt.Sprintf("auditAnnotations[%d] fails: %v", i, err)
			return v
		}
	}
	if v.Detail = open; open == "" && len(p.Validations) > 0 {
		v.Detail = "allows the object: no validation is false"
	}
	return v
}

// denied is the verdict of a validation that is false, by the actions of the binding.
func (s *PolicyStep) denied(detail string) Verdict {
	v := s.Verdict
	v.Denied, v.Detail = s.Binding.Denies(), detail
	if !v.Denied {
		v.Detail += fmt.Sprintf(" (validationActions %s: the request goes on)", strings.Join(lists.Strings(s.Binding.Actions), " and "))
	}
	return v
}

// message is what the API server answers with. Source: k8s.io/apiserver
// pkg/admission/plugin/policy/validating.
func (r Request) message(v *admissionv1.Validation, vars cel.PartialActivation) string {
	if v.MessageExpression != "" {
		value, err := r.programs.programOf(sourceText{v.MessageExpression, expressionOfPolicy}).value(vars)
		s, isText := value.(types.String)
		if answer := strings.TrimSpace(string(s)); err == nil && isText && answer != "" &&
			!strings.Contains(answer, "\n") {
			return text.Shorten(answer, maxMessage)
		}
		if err == nil && !isText {
			return "with the message of " + text.Shorten(v.MessageExpression, maxMessage)
		}
	}
	if v.Message != "" {
		return text.Shorten(strings.TrimSpace(v.Message), maxMessage)
	}
	return "failed expression: " + text.Shorten(strings.TrimSpace(v.Expression), maxMessage)
}
