package classify

import (
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// PolicyProfile is an admission policy as checks see it, and what is around it.
type PolicyProfile struct {
	*inventory.AdmissionPolicy
	// Platform says that the Policy counts it as a part of the platform.
	Platform bool
	// Absent says that the input holds no such policy, but a binding of it.
	Absent bool
	// Snapshot holds the facts around the policy.
	Snapshot *inventory.Snapshot
	// Matcher answers what the API server does with requests.
	Matcher *admission.Matcher
	// Policy holds what the cluster's owner decided.
	Policy *Policy
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
	return !p.KnowsReach() || len(p.Matcher.PolicyResources(&unbound)) > 0
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
	for _, of := range s.Policies {
		out = append(out, PolicyProfile{of, matchAny(p.PlatformWebhooks, of.Name), false, s, r.Matcher, p, w.requests})
	}
	for _, b := range s.Unbound {
		of := &inventory.AdmissionPolicy{
			Registration: inventory.Registration{Ref: b.Policy, Object: b.Object},
			Bindings:     []*inventory.PolicyBinding{b},
		}
		out = append(out, PolicyProfile{AdmissionPolicy: of, Absent: true, Snapshot: s, Matcher: r.Matcher, Policy: p})
	}
	return out
}

// findOfPolicies runs the checks of admission policies.
func (p *Policy) findOfPolicies(w *work, r *Report) {
	for _, of := range p.policyProfiles(w, r) {
		refused := p.runs(refusedByAPI) && !of.Absent && len(r.Matcher.RefusedPolicy(of.AdmissionPolicy)) > 0
		for _, check := range Checks {
			if !w.step() {
				return
			}
			if check.FindPolicy != nil && p.runs(check) && (!refused || check == refusedByAPI) {
				r.Findings = appendFindings(r.Findings, check, &of.Registration, check.FindPolicy(&of))
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
