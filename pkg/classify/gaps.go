package classify

import (
	"fmt"
	"regexp"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var equivalentGap = &Check{
	Name:     "equivalent-gap",
	Summary:  "A webhook with matchPolicy Exact is not called for other versions of the same resource.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if len(p.UnmatchedVersions) == 0 {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("is not called when its resources are written as %s, for its matchPolicy is Exact", JoinBounded(p.UnmatchedVersions)),
			Fix:     patch(p, set(p, "matchPolicy", string(admissionv1.Equivalent))),
		}}
	},
}

// findUnmatchedVersions finds the versions for which webhooks with matchPolicy Exact
// are not called. Several webhooks of one configuration, one for each version,
// leave none. It goes once through the rules of a configuration and through what each webhook matches.
func findUnmatchedVersions(w *work, r *Report) {
	siblings := map[inventory.Ref][]*inventory.Webhook{}
	for _, p := range r.Profiles {
		siblings[p.WithoutName()] = append(siblings[p.WithoutName()], p.Webhook)
	}
	unmatchedBy := map[inventory.Ref]func(inventory.Resource) []string{}
	for _, p := range r.Profiles {
		if p.MatchPolicy != admissionv1.Exact || p.Type == inventory.Conversion || len(p.Matched) == 0 {
			continue
		}
		key := p.WithoutName()
		if unmatchedBy[key] == nil {
			unmatchedBy[key] = r.Matcher.UnmatchedVersions(siblings[key])
		}
		for _, matched := range p.Matched {
			if !w.step() {
				return
			}
			if matched.Subresource == "" {
				p.UnmatchedVersions = append(p.UnmatchedVersions, unmatchedBy[key](matched.Resource)...)
			}
		}
		p.UnmatchedVersions = lists.Distinct(p.UnmatchedVersions)
	}
}

var subresourceGap = &Check{
	Name:     "subresource-gap",
	Summary:  "A validating webhook or policy is not asked about the subresources through which what it checks is changed: containers and resources of Pods, or replicas.",
	Severity: Info,
	FindPolicy: func(p *PolicyProfile) []Problem {
		if p.Type != inventory.ValidatingPolicy || !p.Denies() || p.Platform {
			return nil
		}
		expressions := slices.Concat(
			lists.Map(p.Validations, func(v admissionv1.Validation) string { return v.Expression }),
			lists.Map(p.Variables, func(v admissionv1.Variable) string { return v.Expression }),
		)
		return replicasPast(p.Matcher, p.Matcher.PolicyResources(p.AdmissionPolicy), expressions)
	},
	Find: func(p *Profile) []Problem {
		if p.Platform || p.Type != inventory.Validating {
			return nil
		}
		if len(p.UnmatchedSubresources) == 0 {
			conditions := lists.Map(p.MatchConditions,
				func(c admissionv1.MatchCondition) string { return c.Expression })
			return replicasPast(p.Matcher, p.Matched, conditions)
		}
		rule := admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Update},
			Rule: admissionv1.Rule{
				APIGroups: []string{""}, APIVersions: []string{"v1"},
				Resources: lists.Map(p.UnmatchedSubresources, inventory.Resource.Path),
			},
		}
		return []Problem{{
			Message: fmt.Sprintf("checks Pods when they are created and updated, but is not called for UPDATE of %s: what it enforces can be changed there", listed(p.UnmatchedSubresources)),
			Brief:   fmt.Sprintf("Pods can be changed past it by UPDATE of %s", listed(p.UnmatchedSubresources)),
			Fix:     patch(p, set(p, "rules/-", rule)) + "; its backend gets the whole Pod with those requests",
		}}
	},
}

// readsReplicas is in an expression that compares the replicas of an object.
var readsReplicas = regexp.MustCompile(`\bobject\.\??spec\.\??replicas\b`)

// replicasPast reports what is asked about replicas, and not where a Scale sets them: kubectl scale
// and autoscalers write that, and the API server gives it as the object.
func replicasPast(m *admission.Matcher, matched []admission.MatchedResource, expressions []string) []Problem {
	if !slices.ContainsFunc(expressions, readsReplicas.MatchString) {
		return nil
	}
	var past []inventory.Resource
	for _, r := range matched {
		scale := inventory.Resource{Group: r.Group, Name: r.Name, Subresource: "scale"}
		if _, isAsked := find(matched, scale); r.Subresource == "" && !isAsked && r.Operations.Has(admission.Update) &&
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
var podEdits = inventory.ResourcesNamed("pods/ephemeralcontainers pods/resize")

// findUnmatchedSubresources finds the podEdits for which webhooks that validate Pods
// are not called, nor another webhook of their configuration.
func findUnmatchedSubresources(w *work, r *Report) {
	type edited struct {
		configuration inventory.Ref
		resource      inventory.Resource
	}
	matched := map[edited]bool{}
	for _, p := range r.Profiles {
		for _, pod := range podEdits {
			if w.step() && p.Type == inventory.Validating && p.operations(pod).Has(admission.Update) {
				matched[edited{p.WithoutName(), pod}] = true
			}
		}
	}
	for _, p := range r.Profiles {
		all := p.operations(pods)
		if !w.step() || p.Type != inventory.Validating || !all.Has(admission.Create) || !all.Has(admission.Update) {
			continue
		}
		for _, pod := range podEdits {
			if slices.Contains(r.Matcher.Operations(pod), admission.Update) && !matched[edited{p.WithoutName(), pod}] {
				p.UnmatchedSubresources = append(p.UnmatchedSubresources, pod)
			}
		}
	}
}

// operations are those on the resource for which the webhook is called.
func (f *Profile) operations(r inventory.Resource) admission.Operations {
	i, matched := find(f.Matched, r)
	if !matched {
		return 0
	}
	return f.Matched[i].Operations
}

var resourceNamesGap = &Check{
	Name:     "resource-names-gap",
	Summary:  "An admission policy guards objects by resourceNames against deletion: deleting the whole collection passes it by.",
	Severity: Info,
	FindPolicy: func(p *PolicyProfile) []Problem {
		if !p.Denies() || !slices.ContainsFunc(p.Matcher.PolicyResources(p.AdmissionPolicy),
			func(r admission.MatchedResource) bool { return r.Operations.Has(admission.Delete) }) {
			return nil
		}
		gap := namesGap(objectName(&p.Registration), p.Object.Owner, &p.MatchResources)
		isDenied := slices.ContainsFunc(p.Bindings, deniesAll)
		for _, b := range p.Bindings {
			if gap == nil && b.Denies() && !isDenied {
				gap = namesGap(bindingName(b), b.Object.Owner, &b.MatchResources)
			}
		}
		return gap
	},
}

// deniesAll reports whether nothing that the policy matches passes by the binding.
func deniesAll(b *inventory.PolicyBinding) bool {
	return b.Denies() && len(b.Rules)+len(b.Excluded.Rules) == 0 && b.NamespaceSelector.Empty() &&
		b.ObjectSelector.Empty()
}

// namesGap is what the resourceNames of the object's rules miss, a policy or a binding; nothing of
// what a rule has the deletion of without names.
func namesGap(object string, owner inventory.Owner, m *inventory.MatchResources) []Problem {
	deletes := func(i int) bool { return admission.RuleOperations(&m.Rules[i]).Has(admission.Delete) }
	unnamed := map[string]bool{}
	for i, names := range m.ResourceNames {
		if len(names) == 0 && deletes(i) {
			unnamed[named(&m.Rules[i])] = true
		}
	}
	for i, names := range m.ResourceNames {
		if rule := named(&m.Rules[i]); len(names) > 0 && deletes(i) && !unnamed[rule] {
			return []Problem{{
				Message: fmt.Sprintf("is not evaluated for %s of %s where the whole collection is deleted: the requests then carry no name, which the resourceNames of resourceRules[%d] of %s never match",
					inventory.Counted(len(names), "name"), rule, i, object),
				Fix: fmt.Sprintf("remove resourceNames from resourceRules[%d] of %s, and compare oldObject.metadata.name in a matchCondition of the policy%s", i, object, changedBy(owner)),
			}}
		}
	}
	return nil
}
