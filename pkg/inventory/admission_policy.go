package inventory

import (
	"cmp"
	"slices"

	"k8s.io/utils/ptr"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// The kinds of admission policies and of what binds them.
const (
	KindMutatingPolicy          = "MutatingAdmissionPolicy"
	KindMutatingPolicyBinding   = "MutatingAdmissionPolicyBinding"
	KindValidatingPolicy        = "ValidatingAdmissionPolicy"
	KindValidatingPolicyBinding = "ValidatingAdmissionPolicyBinding"
)

// AdmissionPolicy is a MutatingAdmissionPolicy or a ValidatingAdmissionPolicy, with the
// API's defaults filled in. It has no backend: the API server evaluates it itself.
type AdmissionPolicy struct {
	Registration
	// ParamKind is the kind of its params; nil where it takes none.
	ParamKind *admissionv1.ParamKind
	// TypeWarnings are what the controller manager found by type checking the
	// expressions; none of a mutating policy.
	TypeWarnings []admissionv1.ExpressionWarning
	// Variables are what Mutations, those of a mutating policy, and Validations and
	// AuditAnnotations, those of a validating one, may read.
	Variables        []admissionv1.Variable
	Mutations        []admissionv1.Mutation
	Validations      []admissionv1.Validation
	AuditAnnotations []admissionv1.AuditAnnotation
	// Bindings are sorted by name. Without any, the policy has no effect.
	Bindings []*PolicyBinding
}

// PolicyBinding puts a policy into effect, for requests that match its MatchResources
// as well as the policy's: without Rules all do.
type PolicyBinding struct {
	Object Object
	// Policy names the policy, which need not exist.
	Policy Ref
	MatchResources
	// ParamRef says which params the policy is evaluated with; nil is none.
	ParamRef *admissionv1.ParamRef
	// Actions are empty for a mutating policy.
	Actions []admissionv1.ValidationAction
}

// AppliesConfigurations reports whether the policy changes objects as a server-side apply
// does, rather than by JSON patches alone.
func (p *AdmissionPolicy) AppliesConfigurations() bool {
	return slices.ContainsFunc(p.Mutations, func(m admissionv1.Mutation) bool {
		return m.PatchType == admissionv1.PatchTypeApplyConfiguration
	})
}

// SelectedBy is what the policy selects by the binding.
func (p *AdmissionPolicy) SelectedBy(b *PolicyBinding) MatchResources {
	out := p.MatchResources
	out.NamespaceSelector = out.NamespaceSelector.and(b.NamespaceSelector)
	out.ObjectSelector = out.ObjectSelector.and(b.ObjectSelector)
	return out
}

// Denies reports whether what the policy finds refuses requests by one of its bindings.
func (p *AdmissionPolicy) Denies() bool {
	return slices.ContainsFunc(p.Bindings, (*PolicyBinding).Denies)
}

// Denies reports whether what the policy finds refuses the request, rather than being
// reported alone.
func (b *PolicyBinding) Denies() bool {
	return b.Policy.Type == MutatingPolicy || slices.Contains(b.Actions, admissionv1.Deny)
}

// DeniesWithoutParams reports whether params that do not exist are a failure of the
// policy, rather than leaving it out.
func (b *PolicyBinding) DeniesWithoutParams() bool {
	return b.ParamRef != nil && ptr.Deref(b.ParamRef.ParameterNotFoundAction, "") == admissionv1.DenyAction
}

func policyRef(t Type, name string) Ref { return Ref{Type: t, Configuration: name, Name: name} }

// addPolicies adds the policies with their bindings, sorted by type and name, and the
// bindings of those that the input lacks; they are those of before where all objects are.
func (b *Builder) addPolicies(s *Snapshot, o Objects) {
	if was := &b.objects; b.before != nil &&
		slices.Equal(o.MutatingPolicies, was.MutatingPolicies) &&
		slices.Equal(o.ValidatingPolicies, was.ValidatingPolicies) &&
		slices.Equal(o.MutatingPolicyBindings, was.MutatingPolicyBindings) &&
		slices.Equal(o.ValidatingPolicyBindings, was.ValidatingPolicyBindings) {
		s.Policies, s.Unbound = b.before.Policies, b.before.Unbound
		return
	}
	byRef := map[Ref]*AdmissionPolicy{}
	for _, p := range o.MutatingPolicies {
		s.Policies = append(s.Policies, o.mutatingPolicy(p))
	}
	for _, p := range o.ValidatingPolicies {
		s.Policies = append(s.Policies, o.validatingPolicy(p))
	}
	slices.SortFunc(s.Policies, func(a, b *AdmissionPolicy) int { return a.Compare(b.Ref) })
	for _, p := range s.Policies {
		byRef[p.Ref] = p
	}
	for _, binding := range o.policyBindings() {
		if p := byRef[binding.Policy]; p != nil {
			p.Bindings = append(p.Bindings, binding)
		} else {
			s.Unbound = append(s.Unbound, binding)
		}
	}
}

func (o Objects) mutatingPolicy(p *admissionv1.MutatingAdmissionPolicy) *AdmissionPolicy {
	return &AdmissionPolicy{
		Registration: Registration{
			Ref:             policyRef(MutatingPolicy, p.Name),
			Object:          o.object(KindMutatingPolicy, p),
			FailurePolicy:   ptr.Deref(p.Spec.FailurePolicy, admissionv1.Fail),
			Reinvocation:    cmp.Or(p.Spec.ReinvocationPolicy, admissionv1.NeverReinvocationPolicy),
			MatchResources:  matchResources(p.Spec.MatchConstraints),
			MatchConditions: p.Spec.MatchConditions,
		},
		ParamKind: p.Spec.ParamKind,
		Mutations: p.Spec.Mutations,
		Variables: p.Spec.Variables,
	}
}

func (o Objects) validatingPolicy(p *admissionv1.ValidatingAdmissionPolicy) *AdmissionPolicy {
	return &AdmissionPolicy{
		TypeWarnings: ptr.Deref(p.Status.TypeChecking, admissionv1.TypeChecking{}).ExpressionWarnings,
		Registration: Registration{
			Ref:             policyRef(ValidatingPolicy, p.Name),
			Object:          o.object(KindValidatingPolicy, p),
			FailurePolicy:   ptr.Deref(p.Spec.FailurePolicy, admissionv1.Fail),
			MatchResources:  matchResources(p.Spec.MatchConstraints),
			MatchConditions: p.Spec.MatchConditions,
		},
		ParamKind:        p.Spec.ParamKind,
		Variables:        p.Spec.Variables,
		Validations:      p.Spec.Validations,
		AuditAnnotations: p.Spec.AuditAnnotations,
	}
}

func (o Objects) policyBindings() []*PolicyBinding {
	var out []*PolicyBinding
	for _, b := range o.MutatingPolicyBindings {
		out = append(out, &PolicyBinding{
			Object:         o.object(KindMutatingPolicyBinding, b),
			Policy:         policyRef(MutatingPolicy, b.Spec.PolicyName),
			MatchResources: matchResources(b.Spec.MatchResources),
			ParamRef:       b.Spec.ParamRef,
		})
	}
	for _, b := range o.ValidatingPolicyBindings {
		out = append(out, &PolicyBinding{
			Object:         o.object(KindValidatingPolicyBinding, b),
			Policy:         policyRef(ValidatingPolicy, b.Spec.PolicyName),
			MatchResources: matchResources(b.Spec.MatchResources),
			ParamRef:       b.Spec.ParamRef,
			Actions:        b.Spec.ValidationActions,
		})
	}
	slices.SortStableFunc(out, func(a, b *PolicyBinding) int { return cmp.Compare(a.Object.Name, b.Object.Name) })
	return out
}

// matchResources are those of a policy or binding; nil leaves nothing out.
func matchResources(m *admissionv1.MatchResources) MatchResources {
	if m == nil {
		m = &admissionv1.MatchResources{}
	}
	return MatchResources{
		RuleSet:           ruleSet(m.ResourceRules),
		Excluded:          ruleSet(m.ExcludeResourceRules),
		MatchPolicy:       ptr.Deref(m.MatchPolicy, admissionv1.Equivalent),
		NamespaceSelector: newSelector(m.NamespaceSelector),
		ObjectSelector:    newSelector(m.ObjectSelector),
	}
}

func ruleSet(rules []admissionv1.NamedRuleWithOperations) RuleSet {
	var out RuleSet
	for i := range rules {
		out.Rules = append(out.Rules, rules[i].RuleWithOperations)
		if len(rules[i].ResourceNames) > 0 && out.ResourceNames == nil {
			out.ResourceNames = make([][]string, len(rules))
		}
		if out.ResourceNames != nil {
			out.ResourceNames[i] = rules[i].ResourceNames
		}
	}
	return out
}
