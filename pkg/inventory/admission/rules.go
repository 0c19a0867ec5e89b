package admission

import (
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

func RuleOperations(rule *admissionv1.RuleWithOperations) Operations {
	var set Operations
	for _, op := range rule.Operations {
		if op == admissionv1.OperationAll {
			return allOperations
		}
		set |= operationBits[Operation(op)]
	}
	return set
}

// coversScope reports whether the rule's scope admits a resource. Namespaces
// count as cluster-scoped, whatever their requests say. Source:
// k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules.
func coversScope(scope *admissionv1.ScopeType, r inventory.Resource, namespaced bool) bool {
	if r.IsNamespaces() {
		namespaced = false
	}
	switch ptr.Deref(scope, admissionv1.AllScopes) {
	case admissionv1.NamespacedScope:
		return namespaced
	case admissionv1.ClusterScope:
		return !namespaced
	}
	return true
}

// NamesResource reports whether one of the rule's resources covers r, whatever its group: "*" is
// every resource but no subresource, "*/*" everything, "*/scale" that subresource of all, and
// "pods/*" the subresources of pods as well as plain pods.
func NamesResource(rule *admissionv1.RuleWithOperations, r inventory.Resource) bool {
	return slices.ContainsFunc(rule.Resources, func(pattern string) bool { return patternCovers(pattern, r) })
}

func CoversGroup(rule *admissionv1.RuleWithOperations, group string) bool {
	return covers(rule.APIGroups, group)
}

func CoversVersion(rule *admissionv1.RuleWithOperations, version string) bool {
	return covers(rule.APIVersions, version)
}

// RulesCover reports whether a rule covers the resource in any version: of most
// webhooks no more needs to be asked.
func RulesCover(registration *inventory.Registration, r inventory.Resource) bool {
	for i := range registration.Rules { // not by value: rules are large, and webhooks many
		if rule := &registration.Rules[i]; CoversGroup(rule, r.Group) && NamesResource(rule, r) {
			return true
		}
	}
	return false
}

// covers reports whether the list holds the value or a lone "*".
func covers(list []string, value string) bool {
	return slices.Contains(list, "*") || slices.Contains(list, value)
}

func patternCovers(pattern string, r inventory.Resource) bool {
	name, sub, _ := strings.Cut(pattern, "/")
	return (name == "*" || name == r.Name) && (sub == "*" || sub == r.Subresource)
}

// names reports whether the rule spells the resource's name, rather than
// covering it by a wildcard.
func names(resources []string, r inventory.Resource) bool {
	return slices.ContainsFunc(resources, func(pattern string) bool {
		return !strings.HasPrefix(pattern, "*") && patternCovers(pattern, r)
	})
}

// exemptKinds are never sent to webhooks that are registered through the API.
// Source: rules.IsExemptAdmissionConfigurationResource.
var exemptKinds = inventory.ResourcesNamed(`
	validatingwebhookconfigurations.admissionregistration.k8s.io mutatingwebhookconfigurations.admissionregistration.k8s.io
	validatingadmissionpolicies.admissionregistration.k8s.io validatingadmissionpolicybindings.admissionregistration.k8s.io
	mutatingadmissionpolicies.admissionregistration.k8s.io mutatingadmissionpolicybindings.admissionregistration.k8s.io`)

// excludedReviews are not sent to any webhook where the gate
// ExcludeAdmissionWebhookVirtualResources is on. Source:
// k8s.io/kubernetes/pkg/kubeapiserver/admission/exclusion.
var excludedReviews = inventory.ResourcesNamed(`
	selfsubjectreviews.authentication.k8s.io tokenreviews.authentication.k8s.io
	localsubjectaccessreviews.authorization.k8s.io selfsubjectaccessreviews.authorization.k8s.io
	selfsubjectrulesreviews.authorization.k8s.io subjectaccessreviews.authorization.k8s.io`)

// neverJudged are the resources for which no policy of the API is evaluated, whatever
// the gate above says. Source: k8s.io/apiserver/pkg/admission/plugin/policy/generic.
var neverJudged = slices.Concat(exemptKinds[2:], excludedReviews)

// NeverSent returns the resources for which this server does not call the webhook, or
// evaluate the policy. What it reads from disk sees its own kinds as well.
func NeverSent(s *inventory.Snapshot, r inventory.Ref) []inventory.Resource {
	switch {
	case r.Static() && (s.ReviewsExcluded || r.Type.IsPolicy()):
		return excludedReviews
	case r.Static():
		return nil
	case r.Type.IsPolicy():
		return neverJudged
	case s.ReviewsExcluded:
		return slices.Concat(exemptKinds, excludedReviews)
	}
	return exemptKinds
}

// neverSees reports the same of a resource that is exempt for what is registered through
// the API: among these, what is read from disk sees its own kinds.
func neverSees(r inventory.Ref, exempt bool, resource inventory.Resource) bool {
	return exempt && !(r.Static() && resource.Group == exemptKinds[0].Group)
}

// storedAs returns the resource that stands for all that are stored as one with r, and
// therefore equivalent: those of Events, among those that API servers still serve. Source:
// k8s.io/kubernetes/pkg/kubeapiserver/default_storage_factory_builder.go.
func storedAs(r inventory.Resource) inventory.Resource {
	if r.Group == eventsGroup && r.Name == "events" {
		r.Group = ""
	}
	return r
}
