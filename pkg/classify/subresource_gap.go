package classify

import (
	"fmt"
	"regexp"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var subresourceGap = &Check{
	Name:     "subresource-gap",
	Summary:  "A validating webhook or policy is not asked about the subresources through which what it checks is changed: containers and resources of Pods, or replicas.",
	Severity: Info,
	FindPolicy: func(p *PolicyProfile) []Problem {
		if p.Type != inventory.ValidatingPolicy || !p.Denies() || p.Platform {
			return nil
		}
		return replicasPast(p.Matcher, p.Matcher.PolicyResources(p.AdmissionPolicy), p.expressions())
	},
	Find: func(p *Profile) []Problem {
		if p.Platform || p.Type != inventory.Validating {
			return nil
		}
		if len(p.UnmatchedSubresources) == 0 {
			conditions := text.Map(p.MatchConditions, func(c admissionv1.MatchCondition) string { return c.Expression })
			return replicasPast(p.Matcher, p.Matched, conditions)
		}
		return []Problem{{
			Message: fmt.Sprintf("checks Pods when they are created and updated, but is not called for UPDATE of %s: what it enforces can be changed there", listed(p.UnmatchedSubresources)),
			Brief:   fmt.Sprintf("Pods can be changed past it by UPDATE of %s", listed(p.UnmatchedSubresources)),
			Fix:     patch(p, set(p, "rules/-", ruleFor(p.UnmatchedSubresources))) + "; its backend gets the whole Pod with those requests",
		}}
	},
}

// readsReplicas is in an expression that compares the replicas of an object.
var readsReplicas = regexp.MustCompile(`\bobject\.\??spec\.\??replicas\b`)

// expressions are all that the policy evaluates.
func (p *PolicyProfile) expressions() []string {
	out := text.Map(p.Validations, func(v admissionv1.Validation) string { return v.Expression })
	out = append(out, text.Map(p.Variables, func(v admissionv1.Variable) string { return v.Expression })...)
	return out
}

// replicasPast reports what is asked about replicas, and not where a Scale sets them: kubectl scale
// and autoscalers write that, and the API server gives it as the object.
func replicasPast(m *admission.Matcher, matched []admission.MatchedResource, expressions []string) []Problem {
	if !slices.ContainsFunc(expressions, readsReplicas.MatchString) {
		return nil
	}
	var past []inventory.Resource
	for _, r := range matched {
		scale := inventory.Resource{Group: r.Group, Name: r.Name, Subresource: "scale"}
		if _, asked := find(matched, scale); r.Subresource == "" && !asked && r.Operations.Has(admission.Update) &&
			slices.Contains(m.Operations(scale), admission.Update) {
			past = append(past, scale)
		}
	}
	if len(past) == 0 {
		return nil
	}
	return []Problem{{
		Message: fmt.Sprintf("compares spec.replicas, but is not asked about UPDATE of %s: kubectl scale and autoscalers set them there", listed(past)),
		Fix:     fmt.Sprintf("add a rule for UPDATE of %s: the object is then a Scale, which has spec.replicas and no labels", listed(past)),
	}}
}

var pods = inventory.Resource{Name: "pods"}

// podEdits are the subresources of Pods that change what a Pod consists of: the
// Pod itself can hardly be changed. Source: ValidatePodUpdate,
// ValidatePodEphemeralContainersUpdate and ValidatePodResize of
// k8s.io/kubernetes/pkg/apis/core/validation.
var podEdits = []inventory.Resource{
	{Name: "pods", Subresource: "ephemeralcontainers"},
	{Name: "pods", Subresource: "resize"},
}

// ruleFor is the rule that lacks.
func ruleFor(resources []inventory.Resource) admissionv1.RuleWithOperations {
	rule := admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Update},
		Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}},
	}
	for _, r := range resources {
		rule.Resources = append(rule.Resources, r.Path())
	}
	return rule
}

// findUnmatchedSubresources finds the podEdits for which webhooks that validate Pods
// are not called, nor another webhook of their configuration.
func findUnmatchedSubresources(w *work, m *admission.Matcher, profiles []*Profile) {
	type edited struct {
		configuration inventory.Ref
		resource      inventory.Resource
	}
	matched := map[edited]bool{}
	for _, p := range profiles {
		for _, r := range podEdits {
			if w.step() && seesPods(p) && p.operations(r).Has(admission.Update) {
				matched[edited{p.WithoutName(), r}] = true
			}
		}
	}
	for _, p := range profiles {
		if all := p.operations(pods); !w.step() || p.Type != inventory.Validating || !all.Has(admission.Create) ||
			!all.Has(admission.Update) {
			continue
		}
		for _, r := range podEdits {
			if slices.Contains(m.Operations(r), admission.Update) && !matched[edited{p.WithoutName(), r}] {
				p.UnmatchedSubresources = append(p.UnmatchedSubresources, r)
			}
		}
	}
}

// seesPods reports whether the webhook validates requests to Pods or a subresource.
func seesPods(f *Profile) bool {
	return f.Type == inventory.Validating &&
		slices.ContainsFunc(f.Matched, func(r admission.MatchedResource) bool { return r.Parent() == pods })
}

// operations are those on the resource for which the webhook is called.
func (f *Profile) operations(r inventory.Resource) admission.Operations {
	i, matched := find(f.Matched, r)
	if !matched {
		return 0
	}
	return f.Matched[i].Operations
}
