package classify

import (
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var paramMissing = &Check{
	Name:     "param-missing",
	Summary:  "An admission policy refuses all that a binding matches: there are no params as the binding names them.",
	Severity: Warning,
	Fails:    true,
	FindPolicy: func(p *PolicyProfile) []Problem {
		lacking, missing := withoutParams(p)
		if len(lacking) == 0 {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("refuses %s, whatever its matchConditions and validationActions say: %s (parameterNotFoundAction Deny)", ruledRequests(p), JoinBounded(missing)),
			Fix:     fmt.Sprintf("create the params, or let requests through until they exist: %s", deleteBindings(lacking)),
		}}
	},
}

// withoutParams are the bindings by which the policy refuses whatever they match, as there
// are no params for them anywhere, with what is missing. Where only some namespaces have
// them, it may be meant so.
func withoutParams(p *PolicyProfile) (lacking []*inventory.PolicyBinding, missing []string) {
	if !p.FailsClosed() || !p.meetsRequests() {
		return nil, nil
	}
	for _, b := range p.Bindings {
		if b.DeniesWithoutParams() && b.ParamsKnown && len(b.ParamsIn) == 0 {
			lacking = append(lacking, b)
			missing = append(missing, fmt.Sprintf("binding %s needs %s, which does not exist", b.Object.Name, admission.ParamName(p.AdmissionPolicy, b.ParamRef)))
		}
	}
	return lacking, missing
}
