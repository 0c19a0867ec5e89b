package classify

import (
	"fmt"
	"slices"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// PolicyProfile is an admission policy as checks see it, and what is around it.
type PolicyProfile struct {
	*inventory.AdmissionPolicy
	// Platform says that the Policy counts it as a part of the platform.
	Platform bool
	// Absent says that the input holds no such policy, but a binding of it.
	Absent   bool
	Snapshot *inventory.Snapshot
	Matcher  *admission.Matcher
	Policy   *Policy
	// requests are those on the control plane's path.
	requests controlPlaneRequests
}

// isEvaluatedFor reports whether a binding that denies certainly puts the policy into effect for
// the request.
func (p *PolicyProfile) isEvaluatedFor(r admission.Request) bool {
	return slices.ContainsFunc(p.Bindings, func(b *inventory.PolicyBinding) bool {
		return b.Denies() && p.Matcher.MatchPolicy(r, p.AdmissionPolicy, b).Match == admission.Yes
	})
}

// meetsRequests reports whether its rules, without regard to its bindings, cover what the
// API server serves, or what the input need not show.
func (p *PolicyProfile) meetsRequests() bool {
	unbound := *p.AdmissionPolicy
	unbound.Bindings = nil
	return !knowsReach(p.Snapshot, &p.Registration) || len(p.Matcher.PolicyResources(&unbound)) > 0
}

// controlPlane are the requests on the control plane's path that a failure of the
// policy certainly refuses.
func (p *PolicyProfile) controlPlane() []ControlPlaneMatch {
	var out []ControlPlaneMatch
	if !p.FailsClosed() || !p.Denies() {
		return nil
	}
	for r, requests := range p.requests {
		if !admission.RulesCover(&p.Registration, r) {
			continue
		}
		for _, needed := range requests {
			if p.isEvaluatedFor(needed.request) {
				out = append(out, ControlPlaneMatch{Resource: r, Namespace: needed.namespace, Match: admission.Yes})
			}
		}
	}
	return distinctMatches(out)
}

// policyProfiles are those of the Snapshot's policies, and of those that it has
// bindings of alone.
func (p *Policy) policyProfiles(w *work, r *Report) []PolicyProfile {
	s := r.Snapshot
	out := make([]PolicyProfile, 0, len(s.Policies)+len(s.Unbound))
	for _, one := range s.Policies {
		isPlatform := matchAny(p.PlatformWebhooks, one.Name)
		out = append(out, PolicyProfile{one, isPlatform, false, s, r.Matcher, p, w.requests})
	}
	for _, b := range s.Unbound {
		unbound := &inventory.AdmissionPolicy{
			Registration: inventory.Registration{Ref: b.Policy, Object: b.Object},
			Bindings:     []*inventory.PolicyBinding{b},
		}
		out = append(out, PolicyProfile{unbound, false, true, s, r.Matcher, p, nil})
	}
	return out
}

func (p *Policy) findOfPolicies(w *work, r *Report) {
	for _, profile := range p.policyProfiles(w, r) {
		refused := !profile.Absent && len(r.Matcher.RefusedPolicy(profile.AdmissionPolicy)) > 0
		for _, check := range Checks {
			if !w.step() {
				return
			}
			if check.FindPolicy != nil && p.runs(check) && (!refused || check == refusedByAPI) {
				r.Findings = appendFindings(r.Findings, check, &profile.Registration, check.FindPolicy(&profile))
			}
		}
	}
}

// deleteBindings is the command that ends what the policy does by its bindings.
func deleteBindings(p *inventory.AdmissionPolicy) string {
	return PolicyCommands(p).Disable + changedBy(p.Bindings[0].Object.Owner)
}

// ruledRequests are what the rules of a policy ask for, in words.
func ruledRequests(p *PolicyProfile) string {
	var out []string
	for i := range p.Rules {
		out = append(out, operationsOf(&p.Rules[i])+" of "+named(&p.Rules[i]))
	}
	return JoinBounded(out)
}

var paramKindMissing = &Check{
	Name:     "param-kind-missing",
	Summary:  "An admission policy refuses all that it matches: the kind of its params is not served.",
	Severity: Warning,
	Alerts:   map[Severity]string{Warning: "WebhookPolicyParamKindMissing"},
	For:      5 * time.Minute,
	Cause:    "Kind of its params is not served",
	FindPolicy: func(p *PolicyProfile) []Problem {
		if !p.FailsClosed() || len(p.Bindings) == 0 || !p.meetsRequests() ||
			!p.Matcher.ParamKind(p.AdmissionPolicy).Refused {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("refuses %s%s, whatever its bindings and matchConditions say: the API server does not serve %s %s, the kind of its params (failurePolicy Fail); an API server that has served it lets requests pass until it starts anew",
				ruledRequests(p), ifMatched(p), p.ParamKind.APIVersion, p.ParamKind.Kind),
			Fix: fmt.Sprintf("%s; then create the CustomResourceDefinition of %s, and the bindings half a minute after it", deleteBindings(p.AdmissionPolicy), quoted(p.ParamKind.Kind)),
		}}
	},
}

// ifMatched says that selectors or names leave some of the requests out.
func ifMatched(p *PolicyProfile) string {
	if p.NamespaceSelector.Empty() && p.ObjectSelector.Empty() && len(p.Excluded.Rules) == 0 &&
		!slices.ContainsFunc(p.ResourceNames, func(names []string) bool { return len(names) > 0 }) {
		return ""
	}
	return " that its matchConstraints let through"
}

var policyWithoutEffect = &Check{
	Name:     "policy-without-effect",
	Summary:  "An admission policy has no binding, or a binding no policy: neither does anything.",
	Severity: Info,
	FindPolicy: func(p *PolicyProfile) []Problem {
		switch {
		case p.Absent && p.Snapshot.Unread(p.Ref):
		case p.Absent:
			binding, absence := p.Bindings[0].Object, "does not exist, so that"
			if !p.Snapshot.PoliciesKnown {
				absence = "is not in the input; if nothing else installs it,"
			}
			if likely := likelyPolicy(p); likely != "" {
				absence = fmt.Sprintf("is not in the input (did you mean %s?); if nothing else installs it,", likely)
			}
			return []Problem{{
				Message: fmt.Sprintf("%s %s %s has no effect", absence, binding.Kind, binding.Name),
				Fix:     "create the policy, or " + DeleteBinding(p.Bindings[0]) + changedBy(binding.Owner),
			}}
		case p.Snapshot.PoliciesKnown && len(p.Bindings) == 0: // files need not hold all of them
			remove := DeleteCommands(kindOf(&p.Registration), p.Name, p.Object.Owner)
			return []Problem{{
				Message: "has no effect: no binding names it",
				Fix:     fmt.Sprintf("create a %sBinding with policyName %s, or %s%s", p.Object.Kind, quoted(p.Name), remove.Disable, changedBy(p.Object.Owner)),
			}}
		}
		return nil
	},
}

// likelyPolicy is the policy that the bindings of an absent one mean: one of almost the name, or
// of the name and the other type; "" where none is like it.
func likelyPolicy(p *PolicyProfile) string {
	var names []string
	for _, o := range p.Snapshot.Policies {
		switch {
		case o.Type == p.Type:
			names = append(names, o.Name)
		case o.Name == p.Name:
			return o.Object.Kind + " " + o.Name
		}
	}
	return inventory.LikelyName(p.Name, names)
}
