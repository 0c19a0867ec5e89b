package classify

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var subresourceGap = &Check{
	Name:     "subresource-gap",
	Summary:  "A validating webhook on Pods is not called for the subresources through which containers and resources of a running Pod are changed.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if len(p.UnmatchedSubresources) == 0 || p.Platform {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("checks Pods when they are created and updated, but is not called for UPDATE of %s: what it enforces can be changed there", listed(p.UnmatchedSubresources)),
			Brief:   fmt.Sprintf("Pods can be changed past it by UPDATE of %s", listed(p.UnmatchedSubresources)),
			Fix:     patch(p, set(p, "rules/-", ruleFor(p.UnmatchedSubresources))) + "; its backend gets the whole Pod with those requests",
		}}
	},
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
		if all := p.operations(pods); !w.step() || p.Type != inventory.Validating || !all.Has(admission.Create) || !all.Has(admission.Update) {
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
	return f.Type == inventory.Validating && slices.ContainsFunc(f.Matched, func(r admission.MatchedResource) bool { return r.Parent() == pods })
}

// operations are those on the resource for which the webhook is called.
func (f *Profile) operations(r inventory.Resource) admission.Operations {
	i, matched := find(f.Matched, r)
	if !matched {
		return 0
	}
	return f.Matched[i].Operations
}
