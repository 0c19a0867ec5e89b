package admission

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
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

type Operation string

const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// connects are the subresources that the API server serves by a Connecter: any
// verb on them is the admission operation CONNECT. Source:
// k8s.io/kubernetes/pkg/registry (rest.Connecter) and, for OpenShift's, the
// registries of openshift-apiserver.
var connects = inventory.ResourcesNamed(`pods/exec pods/attach pods/portforward pods/proxy nodes/proxy services/proxy
	buildconfigs.build.openshift.io/webhooks buildconfigs.build.openshift.io/instantiatebinary`)

// OperationsOn returns the admission operations that the server can meet on the
// resource. Reading is never admitted, so a read-only resource has none.
func OperationsOn(s inventory.Served) []Operation {
	if slices.Contains(connects, s.Resource) {
		return []Operation{Connect}
	}
	var ops []Operation
	for _, o := range []struct {
		op    Operation
		verbs []string
	}{
		{Create, []string{"create"}},
		{Update, []string{"update", "patch"}},
		{Delete, []string{"delete", "deletecollection"}},
	} {
		if slices.ContainsFunc(o.verbs, func(v string) bool { return slices.Contains(s.Verbs, v) }) {
			ops = append(ops, o.op)
		}
	}
	return ops
}

type Operations uint8

var operationBits = map[Operation]Operations{Create: 1, Update: 2, Delete: 4, Connect: 8}

const allOperations Operations = 15

func operationsOf(ops ...Operation) Operations {
	var set Operations
	for _, op := range ops {
		set |= operationBits[op]
	}
	return set
}

func (o Operations) Has(op Operation) bool { return o&operationBits[op] != 0 }

// List returns the operations in the order CREATE, UPDATE, DELETE, CONNECT.
func (o Operations) List() []Operation {
	return lists.Filter([]Operation{Create, Update, Delete, Connect}, o.Has)
}

// UnusedRules returns the indexes of the rules that match nothing that this server
// serves and sends to webhooks, or evaluates policies for.
func (m *Matcher) UnusedRules(r *inventory.Registration) []int {
	possible := allOperations
	if !r.ObjectSelector.Empty() {
		possible &^= operationBits[Connect] // what it sends carries no labels
	}
	never := NeverSent(m.Snapshot, r.Ref)
	var out []int
	for i := range r.Rules {
		unused := true
		m.index.matches(&r.Rules[i], r.MatchPolicy, func(t *target, ops Operations, _ bool) {
			unused = unused && (ops&possible == 0 || slices.Contains(never, t.Parent()) ||
				unselectedScale(r, t.Resource))
		})
		if unused {
			out = append(out, i)
		}
	}
	return out
}

// unselectedScale reports whether requests to the resource carry a Scale which the objectSelector
// does not select, having no labels. Mutations meet it as the client wrote it, with labels maybe.
func unselectedScale(r *inventory.Registration, resource inventory.Resource) bool {
	s := r.ObjectSelector
	return resource.Subresource == "scale" && r.Type.Validates() && s.Parsed != nil && !s.Parsed.Matches(labels.Set{})
}

// UnmatchedVersions returns, for a resource, the served versions of what is stored
// as one with it that no rule of the webhooks covers, as "apps/v1 deployments":
// requests in them pass the webhooks by. It goes through the rules once, for any
// number of resources.
func (m *Matcher) UnmatchedVersions(webhooks []*inventory.Webhook) func(inventory.Resource) []string {
	covered := map[versionOf]bool{}
	for _, w := range webhooks {
		for i := range w.Rules {
			m.index.each(&w.Rules[i], func(v apiVersion) { covered[versionOf{v.Resource, v.Version}] = true })
		}
	}
	return func(r inventory.Resource) []string {
		var out []string
		served := 0
		for _, v := range m.index.stored[storedAs(r)] {
			if !v.Served {
				continue
			}
			served++
			if !covered[versionOf{v.Resource, v.Version}] {
				out = append(out, schema.GroupVersion{Group: v.Group, Version: v.Version}.String()+" "+v.Path())
			}
		}
		if served < 2 {
			return nil
		}
		slices.Sort(out)
		return out
	}
}

type versionOf struct {
	inventory.Resource
	version string
}
